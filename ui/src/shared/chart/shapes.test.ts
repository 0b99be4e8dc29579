import { expect, test } from 'vitest';
import { apart } from './shapes';

test('names that stand one above another are moved down until none lies on another', () => {
  expect(apart([{ y: 30, n: 'c' }, { y: 0, n: 'a' }, { y: 5, n: 'b' }], 14)).toEqual([{ y: 0, n: 'a' }, { y: 14, n: 'b' }, { y: 30, n: 'c' }]);
  expect(apart([{ y: 3 }, { y: 3 }, { y: 3 }], 10).map((p) => p.y)).toEqual([3, 13, 23]);
});
