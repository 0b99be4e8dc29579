import { expect, test } from 'vitest';
import { quantileOf, errorsOf, ratesOf } from './time';
import type { TimelineResponse } from '../shared/api/schema';

test('a quantile is as long as the times, also of a variant that is not there', () => {
  const t = { times: [1, 2, 3], groups: [{ labels: { variant: 'primary' }, quantiles: { '0.5': [1, 2] } }] } as unknown as TimelineResponse;
  expect(quantileOf(t, 'primary', '0.5')).toEqual([1, 2, null]);
  expect(quantileOf(t, 'candidate', '0.5')).toEqual([null, null, null]);
});

test('rates are of all statuses together, errors the share of one', () => {
  const group = (variant: string, status: string, rate: (number | null)[]) => ({ labels: { variant, status }, rate });
  const t = { times: [1, 2, 3], groups: [group('candidate', 'ok', [9, null, null]), group('candidate', 'error', [1, 2, null]), group('primary', 'ok', [10, 10, null])] } as unknown as TimelineResponse;
  expect(ratesOf(t, 'candidate')).toEqual([10, 2, null]);
  expect(errorsOf(t, 'candidate')).toEqual([0.1, 1, null]);
  expect(errorsOf(t, 'primary')).toEqual([0, 0, null]);
  expect(ratesOf(undefined, 'primary')).toEqual([]);
});
