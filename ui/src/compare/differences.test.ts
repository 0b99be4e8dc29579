import { describe, expect, it } from 'vitest';
import type { CompareHeat } from '../shared/api/schema';
import { coarsen, columnAt, columnX, lay, moved, stretchesOf } from './differences';
import { divergeColor, divergence } from './diverge';
import { contrast, ground, luminance } from '../shared/chart/ramp';

const heat: CompareHeat = {
  expected: 'side', step: 60, max: 0.4, bounds: [0, 0.01, 0.1, 1],
  columns: [
    { side: 'a', start: 0, requests: 10, rows: [1, 2], differences: [0.1, -0.1] }, { side: 'a', start: 60, requests: 10, rows: [1], differences: [0] },
    { side: 'a', start: 120, requests: 0, rows: [], differences: [] },
    { side: 'b', start: 180, requests: 10, rows: [0, 2], differences: [-0.4, 0.4] }, { side: 'b', start: 240, requests: 10, rows: [2], differences: [0.2] },
  ],
};

describe('lay', () => {
  const l = lay(heat, 410, 10)!;
  it('parts the sides', () => {
    expect(l.panels.map((p) => [p.side, p.x, p.width])).toEqual([['a', 0, 200], ['b', 210, 200]]);
    expect([columnX(l, 'a', 60), columnX(l, 'b', 180), columnX(l, 'a', 180)]).toEqual([100, 210, undefined]);
  });
  it('finds the column under a pixel', () => {
    expect([columnAt(l, 0), columnAt(l, 150), columnAt(l, 205), columnAt(l, 400)]).toEqual([{ side: 'a', start: 0 }, { side: 'a', start: 60 }, undefined, { side: 'b', start: 240 }]);
  });
  it('reads the cells', () => {
    expect(l.cells).toHaveLength(6);
    expect(l.cells.find((c) => c.side === 'b' && c.row === 2)).toMatchObject({ low: 0.1, high: 1, difference: 0.4, t: 1 });
    expect(l.low).toBe(0.005);
  });
  it('says which values gained and lost', () => expect(moved(l).map((r) => Number(r.difference.toFixed(3)))).toEqual([-0.2, 0.3]));
  it('has nothing to draw without requests', () => {
    expect(lay({ ...heat, columns: [] }, 400, 10)).toBeUndefined();
    expect(lay(undefined, 400, 10)).toBeUndefined();
  });
});

describe('coarsen', () => {
  const columns = (['a', 'b'] as const).flatMap((side) => Array.from({ length: 48 }, (_, i) => ({ side, start: (side === 'a' ? 0 : 480) + i * 10, requests: 20, rows: [0, 1, 47], differences: [0.1, -0.04, i % 2 ? 0.5 : -0.1] })));
  const fine: CompareHeat = { expected: 'side', step: 10, max: 0.5, bounds: Array.from({ length: 49 }, (_, i) => 1.1 ** i), columns };
  const c = coarsen(fine);
  it('takes columns and rows together', () => {
    expect([c.step, c.columns!.length, c.bounds!.length]).toEqual([40, 24, 25]);
    expect(c.columns![0]).toMatchObject({ side: 'a', start: 0, requests: 80, rows: [0, 23] });
    expect(c.columns![12]).toMatchObject({ side: 'b', start: 480 });
  });
  it('keeps what there was', () => {
    const of = (h: CompareHeat) => h.columns!.reduce((n, x) => n + x.requests * x.differences!.reduce((s: number, d) => s + (d ?? 0), 0), 0);
    expect(of(c)).toBeCloseTo(of(fine), 9);
    expect([c.bounds![0], c.bounds![24]]).toEqual([fine.bounds![0], fine.bounds![48]]);
  });
  it('leaves what is dense as it is', () => {
    const dense = { ...fine, columns: columns.map((x) => ({ ...x, requests: 5000 })) };
    expect(coarsen(dense)).toBe(dense);
  });
});

it('draws days that are apart beside each other', () => {
  expect(stretchesOf([0, 60, 120, 86400, 86460], 60)).toEqual([{ start: 0, end: 180 }, { start: 86400, end: 86520 }]);
  expect(stretchesOf([0, 60, 600], 60)).toEqual([{ start: 0, end: 660 }]);
});

describe('the ramp', () => {
  it('puts the square root of a difference on it, with its sign', () => {
    expect([divergence(0.25, 1), divergence(-0.25, 1), divergence(0, 1), divergence(5, 1), divergence(1, 0)]).toEqual([0.5, -0.5, 0, 1, 0]);
  });
  it.each(['light', 'dark'] as const)('is even to both sides, grey in the middle, and seen on the ground: %s', (theme) => {
    const [r, g, b] = divergeColor(theme, 0);
    expect(Math.max(r, g, b) - Math.min(r, g, b)).toBeLessThan(8);
    for (const t of [0.25, 0.5, 1]) expect(Math.abs(luminance(divergeColor(theme, t)) - luminance(divergeColor(theme, -t)))).toBeLessThan(0.08);
    for (const t of [-1, 1]) expect(contrast(divergeColor(theme, t), ground[theme])).toBeGreaterThan(4.5);
    // Warm has more red than blue, cold the reverse, so that any colour vision tells them apart.
    expect(divergeColor(theme, 1)[0]).toBeGreaterThan(divergeColor(theme, 1)[2] + 60);
    expect(divergeColor(theme, -1)[2]).toBeGreaterThan(divergeColor(theme, -1)[0] + 60);
  });
});
