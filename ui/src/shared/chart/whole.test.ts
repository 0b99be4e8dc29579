import { expect, it } from 'vitest';
import { storedUntil, wholeColumns, wholeOnly, wholeUntil } from './whole';

it('what is counted in steps that are not over is left out', () => {
  const times = [0, 60, 120];
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil(180, 190))).toEqual([1, 2, null]);
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil(178, 1000))).toEqual([1, 2, null]);
  expect(wholeOnly([1, 2, 1], times, 60, wholeUntil(180, 1000))).toEqual([1, 2, 1]);
});

it('columns are open until all of them is stored', () => {
  const h = { start: 1000, step: 10, columns: 6 };
  const whole = (now: number) => wholeColumns(h, storedUntil(now));
  expect([1000, 1029, 1030, 1074.9, 1079.9, 1080, 5000].map(whole)).toEqual([0, 0, 1, 5, 5, 6, 6]);
});
