import { expect, test } from 'vitest';
import { aroundOne, aroundTicks, logRange, logTicks, quantileOf, errorsOf, ratesOf } from './time';
import type { TimelineResponse } from '../shared/api/types';

test('lines of a log axis are few and round', () => {
  expect(logTicks(0.02, 2, 8)).toEqual([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]);
  expect(logTicks(0.02, 2, 4)).toEqual([0.03, 0.1, 0.3, 1]);
  expect(logTicks(1e-6, 1e6, 5).length).toBeLessThanOrEqual(5);
  expect(logTicks(0, 1, 5)).toEqual([]);
});

test('the axis around 1', () => {
  const [min, max] = aroundOne([[0.5, null, 1.2]]);
  expect(min * max).toBeCloseTo(1, 12);
  expect(min).toBeLessThan(0.5);
  expect(aroundOne([[]])[1]).toBeCloseTo(1.25, 9);
  for (const m of [1.25, 1.47, 2.1, 8, 500]) {
    const t = aroundTicks(m);
    expect(t).toContain(1);
    expect(t.length).toBeGreaterThanOrEqual(3);
    for (const v of t) expect(v <= m && v >= 1 / m, `${v} of ${m}`).toBe(true);
    expect([...t].sort((a, b) => a - b)).toEqual(t);
  }
});

test('a log range has room, and is none without values', () => {
  const [min, max] = logRange([[null, 0.01, 0.02]])!;
  expect(min).toBeLessThan(0.01);
  expect(max).toBeGreaterThan(0.02);
  expect(logRange([[null, 0]])).toBeUndefined();
});

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
