import { expect, it } from 'vitest';
import { barScale } from './chart';

it('an axis of bars ends at a round number above all of them', () => {
  expect(barScale([3, 7.2, null])).toEqual({ max: 8, ticks: [0, 4, 8] });
  expect(barScale([0.061])).toEqual({ max: 0.08, ticks: [0, 0.04, 0.08] });
  expect(barScale([1000])).toEqual({ max: 1000, ticks: [0, 500, 1000] });
  expect(barScale([null, undefined])).toEqual({ max: 1, ticks: [0] });
});
