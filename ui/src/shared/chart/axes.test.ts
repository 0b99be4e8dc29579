import { expect, it } from 'vitest';
import { barScale, linePath } from './axes';

it('an axis of bars ends at a round number above all of them', () => {
  expect(barScale([3, 7.2, null])).toEqual({ max: 8, ticks: [0, 4, 8] });
  expect(barScale([0.061])).toEqual({ max: 0.08, ticks: [0, 0.04, 0.08] });
  expect(barScale([1000])).toEqual({ max: 1000, ticks: [0, 500, 1000] });
  expect(barScale([null, undefined])).toEqual({ max: 1, ticks: [0] });
});

it('a line breaks where there is no value, and one alone is a dot', () => {
  const x = (i: number) => 10 * i;
  expect(linePath([1, 2, null, 3, undefined, 4, 5], x, (v) => 9 - v)).toBe('M0.0 8.0L10.0 7.0M30.0 6.0h0.01M50.0 5.0L60.0 4.0');
  expect(linePath([1], x, (v) => v, 1)).toBe('M0.0 1.0h1');
  expect(linePath([], x, (v) => v)).toBe('');
});
