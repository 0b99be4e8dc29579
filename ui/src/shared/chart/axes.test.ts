import { expect, it, test } from 'vitest';
import { aroundOne, aroundTicks, barScale, linePath, logRange, logTicks, padded, places, shareOf, valueAt } from './axes';

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

test('lines of a log axis are few and round', () => {
  expect(logTicks(0.02, 2, 8)).toEqual([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]);
  expect(logTicks(0.02, 2, 4)).toEqual([0.03, 0.1, 0.3, 1]);
  expect(logTicks(1e-6, 1e6, 5).length).toBeLessThanOrEqual(5);
  expect(logTicks(0.071, 0.125, 7)).toEqual([0.08, 0.09, 0.1, 0.12]);
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

test.each([
  ['linear', { min: 2, max: 10 }, 4, 0.25],
  ['logarithmic', { min: 1, max: 100, log: true }, 10, 0.5],
  ['falling', { min: 2, max: 10, turned: true }, 4, 0.75],
  ['beyond its end', { min: 0, max: 4 }, 6, 1.5],
])('a value on an axis: %s', (_, axis, v, share) => {
  expect(shareOf(axis, v)).toBeCloseTo(share, 12);
  expect(valueAt(axis, share)).toBeCloseTo(v, 12);
});

test.each([{ min: 1, max: 16 }, { min: 1, max: 16, log: true }, { min: 1, max: 16, turned: true }])('room at both ends of %j', (axis) => {
  const wide = padded(axis, 12, 240);
  expect(shareOf(wide, axis.min) * 240).toBeCloseTo(axis.turned ? 228 : 12, 9);
  expect(shareOf(wide, axis.max) * 240).toBeCloseTo(axis.turned ? 12 : 228, 9);
});

test('flags do not cover one another, and stay in sight', () => {
  expect(places([100, 300], 500, 16)).toEqual([92, 292]);
  expect(places([100, 104, 300], 500, 16)).toEqual([92, 109, 292]);
  const edge = places([495, 498, 499], 500, 16);
  expect(edge[2]).toBeLessThanOrEqual(500 - 8);
  expect(edge[1]).toBeLessThanOrEqual(edge[2] - 17);
  expect(edge[0]).toBeLessThanOrEqual(edge[1] - 17);
  expect(places([], 500, 16)).toEqual([]);
});
