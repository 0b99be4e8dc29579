import { describe, expect, it } from 'vitest';
import { decodeBox, dragMeans, encodeBox, within } from './box';

it.each([
  { start: 1795150000, end: 1795150600, low: 0.2, high: 0.4 },
  { start: 1795150000, end: 1795150060, low: 0, high: null },
])('%j survives the address', (b) => expect(decodeBox(encodeBox(b))).toEqual(b));

it.each([undefined, '', '1_2_3', '5_4_0.1_0.2', '1_2_0.2_0.1', 'a_b_c_d', '1_2_-1_'])('%s is none', (s) => expect(decodeBox(s)).toBeNull());

describe('a drag', () => {
  const o = { rowPx: 3, drawing: false, boxes: true };
  it.each([
    ['a click', { dx: 2, dy: 3 }, o, 'none'],
    ['sideways', { dx: 200, dy: 20 }, o, 'zoom'],
    ['sideways, to the left, with a stray', { dx: -200, dy: 60 }, o, 'zoom'],
    ['as tall as wide', { dx: 100, dy: -100 }, o, 'box'],
    ['straight down', { dx: 0, dy: 80 }, o, 'box'],
    ['small and crooked', { dx: 12, dy: 12 }, o, 'zoom'],
    ['less than three large rows', { dx: 40, dy: 40 }, { ...o, rowPx: 20 }, 'zoom'],
    ['flat, with Shift', { dx: 200, dy: 2 }, { ...o, drawing: true }, 'box'],
    ['a click with Shift', { dx: 1, dy: 1 }, { ...o, drawing: true }, 'none'],
    ['where rectangles mean nothing', { dx: 10, dy: 200 }, { rowPx: 3, drawing: true, boxes: false }, 'zoom'],
  ] as const)('%s', (_, travel, options, means) => expect(dragMeans(travel, options)).toBe(means));
});

it('knows whether it is in sight', () => {
  const b = { start: 100, end: 200, low: 0, high: null };
  expect(within(b, { start: 150, end: 300 })).toBe(true);
  expect(within(b, { start: 200, end: 300 })).toBe(false);
  expect(within(b, { start: 0, end: 100 })).toBe(false);
});
