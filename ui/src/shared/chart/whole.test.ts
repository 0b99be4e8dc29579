import { expect, it } from 'vitest';
import { wholeColumns, wholeOnly, wholeUntil } from './whole';

it('what is counted in steps that are not over is left out', () => {
  const times = [0, 60, 120];
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil({ whole_until: 175 }, 180))).toEqual([1, 2, null]);
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil({}, 178))).toEqual([1, 2, null]);
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil({}, 180))).toEqual([1, 2, 1]);
});

it('columns are open until all of them is stored', () => {
  const whole = (until?: number) => wholeColumns({ start: 1000, step: 10, whole_until: until }, 6);
  expect([990, 1009, 1010, 1054, 1059, 1060, undefined].map(whole)).toEqual([0, 0, 1, 5, 5, 6, 6]);
});
