import { expect, it } from 'vitest';
import { wholeOnly, wholeUntil } from './whole';

it('what is counted in steps that are not over is left out', () => {
  const times = [0, 60, 120];
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil(180, 190))).toEqual([1, 2, null]);
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil(178, 1000))).toEqual([1, 2, null]);
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil(180, 1000))).toEqual([1, 2, 1]);
});
