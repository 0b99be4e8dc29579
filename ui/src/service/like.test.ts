import { expect, it } from 'vitest';
import { isLike } from './like';

it('a request is like a point when it took about as long, about then', () => {
  expect(isLike({ start: 1000, duration: 0.2 }, 1050, 0.25, 10)).toBe(true);
  expect(isLike({ start: 1000, duration: 0.2 }, 1050, 0.4, 10)).toBe(false);
  expect(isLike({ start: 1000, duration: 0.2 }, 1500, 0.2, 10)).toBe(false);
  expect(isLike({ start: 1000, duration: 0.2 }, 1500, 0.2, 600)).toBe(true);
});
