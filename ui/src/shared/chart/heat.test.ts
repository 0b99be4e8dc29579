import { describe, expect, it } from 'vitest';
import {
  axisTicks, beyond, cellAt, cellBounds, cellOf, chooseAxis, columnAt, columnCells, columnEdges, fromResponse, layout, leastPx, densities, paint, position,
  read, roundUp, under, valueAt, type Axis, type Cells, type Heat,
} from './heat';
import { rampWords } from './ramp';
import type { HeatmapResponse } from '../api/schema';

/** Schema 5 rows between two values, and columns of [row, count] pairs; null is an empty column. */
function answer(low: number, high: number, columns: ([number, number][] | null)[], zero = false): HeatmapResponse {
  const from = Math.floor(32 * Math.log2(low));
  const to = Math.ceil(32 * Math.log2(high));
  const bounds: number[] = zero ? [0] : [];
  for (let k = from; k <= to; k++) bounds.push(2 ** (k / 32));
  const cols = columns.flatMap((c, i) =>
    c ? [{ start: 1000 + i * 10, count: c.reduce((s, [, n]) => s + n, 0), sum: 1, min: low, max: high, rows: c.map(([r]) => r), counts: c.map(([, n]) => n) }] : [],
  );
  return {
    start: 1000, end: 1000 + columns.length * 10, step: 10, slot: 10, family: 'f', error: 0.022, bounds, columns: cols,
    count: cols.reduce((s, c) => s + c.count, 0), max_cell: 9,
  };
}

// A small generator with a seed, so that a failure can be repeated.
function random(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

function randomHeat(r: () => number): Heat {
  const low = 10 ** (-5 + 4 * r());
  const high = low * 10 ** (0.2 + 4 * r());
  const rows = Math.ceil(32 * Math.log2(high)) - Math.floor(32 * Math.log2(low));
  const zero = r() < 0.3;
  const n = 1 + Math.floor(r() * 40);
  const columns = Array.from({ length: n }, () => {
    if (r() < 0.2) return null;
    const picked = new Set(Array.from({ length: 1 + Math.floor(r() * 60) }, () => Math.floor(r() * (rows + (zero ? 1 : 0)))));
    return [...picked].sort((a, b) => a - b).map((row) => [row, 1 + Math.floor(r() * 1000)] as [number, number]);
  });
  return fromResponse(answer(low, high, columns, zero));
}

function randomAxis(h: Heat, r: () => number): Axis {
  const kind = r() < 0.5 ? 'log' : 'linear';
  const at = () => h.bounds[Math.floor(r() * h.bounds.length)] * (0.9 + 0.2 * r()) || 1e-6;
  const [a, b] = [at(), at()].sort((x, y) => x - y);
  return chooseAxis(h, kind, kind === 'log' && r() < 0.3 && a > 0 && a < b ? a : null, r() < 0.5 ? b : null);
}

describe('fromResponse', () => {
  it('puts sparse columns where they belong', () => {
    const h = fromResponse(answer(0.001, 0.01, [null, [[2, 5], [3, 1]], null, [[0, 7]], null]));
    expect(h.columns).toBe(5);
    expect([...h.first]).toEqual([0, 0, 2, 2, 3, 3]);
    expect([...h.columnCount]).toEqual([0, 6, 0, 7, 0]);
    expect(h.rowCount[2]).toBe(5);
    expect(h.count).toBe(13);
  });

  it('reads an empty answer', () => {
    const h = fromResponse({ ...answer(0.001, 0.01, [null, null]), bounds: [], columns: [] });
    expect(h.count).toBe(0);
    const a = chooseAxis(h, 'log', null, null);
    const c = layout(h, a, 400, 16, 8);
    expect(c.count).toBe(0);
    expect(densities(h, c)).toEqual({ top: 0, most: 0 });
  });
});

describe('layout', () => {
  it('tiles the plot without gaps or overlaps and loses no row', () => {
    const r = random(7);
    for (let i = 0; i < 300; i++) {
      const h = randomHeat(r);
      const a = randomAxis(h, r);
      const height = 100 + Math.floor(r() * 500);
      const least = i % 2 ? 1 : 4;
      const c = layout(h, a, height, 16, 8, least);
      const wrong: string[] = [];
      for (let k = 0; k < c.count; k++) {
        if (c.bottom[k] - c.top[k] < Math.min(least, c.count > 1 ? least : 1)) wrong.push(`cell ${k} has ${c.bottom[k] - c.top[k]} pixels`);
        if (k > 0 && c.bottom[k] !== c.top[k - 1]) wrong.push(`a gap or an overlap below cell ${k}`);
        if (k > 0 && c.lowRow[k] !== c.highRow[k - 1] + 1) wrong.push(`a row lost below cell ${k}`);
        if (c.weight[k] !== c.perCell / (c.highRow[k] - c.lowRow[k] + 1)) wrong.push(`the weight of cell ${k}`);
      }
      // Cells of rows never go down.
      for (let row = 1; row < h.rows; row++) if (c.ofRow[row] < c.ofRow[row - 1]) wrong.push(`row ${row} lies below the one before`);
      expect(wrong).toEqual([]);
      if (c.count) {
        expect(c.top[c.count - 1]).toBeGreaterThanOrEqual(c.plotTop);
        expect(c.bottom[0]).toBeLessThanOrEqual(c.plotBottom);
      }
      // Every observation is in exactly one cell or band.
      const sums = new Float64Array(c.count + 2);
      for (let col = 0; col < h.columns; col++) {
        expect(columnCells(h, c, col, sums).reduce((x, y) => x + y, 0)).toBe(h.columnCount[col]);
      }
    }
  });

  it('draws coarser cells where each row has few, on a log axis', () => {
    const few = fromResponse(answer(0.001, 1, [Array.from({ length: 100 }, (_, k) => [k, 1])]));
    const many = fromResponse(answer(0.001, 1, [Array.from({ length: 100 }, (_, k) => [k, 9])]));
    expect([leastPx(few, chooseAxis(few, 'log', null, null)), leastPx(few, chooseAxis(few, 'linear', null, null)), leastPx(many, chooseAxis(many, 'log', null, null))]).toEqual([4, 1, 1]);
    const c = layout(few, chooseAxis(few, 'log', few.bounds[0], few.bounds[few.rows]), few.rows, 0, 0, 4);
    expect(c.perCell).toBeCloseTo(4, 1);
    expect(densities(few, c).most).toBeCloseTo(4, 0);
  });

  it('gives one row one cell where there is room, as it does at 2 px a row', () => {
    const h = fromResponse(answer(0.01, 0.08, [[[0, 1], [95, 1]]]));
    const a = chooseAxis(h, 'log', h.bounds[0], h.bounds[h.rows]);
    const c = layout(h, a, h.rows * 2, 0, 0);
    expect(c.count).toBe(h.rows);
    expect([...c.weight].every((w) => w === 1)).toBe(true);
    expect([...c.top].every((t, i) => c.bottom[i] - t === 2)).toBe(true);
  });
});

describe('the cap', () => {
  const h = fromResponse(answer(0.001, 1, [[[10, 90], [200, 8], [300, 2]]]));
  it('counts what lies beyond it in the band, and only that', () => {
    const cap = 0.2;
    const c = layout(h, chooseAxis(h, 'linear', null, cap), 400, 16, 8);
    const want = [...h.rowCount].reduce((s, n, row) => s + (h.bounds[row] >= cap ? n : 0), 0);
    expect(want).toBe(2);
    expect(beyond(h, c)).toBe(want);
    const r = read(h, c, 0, c.count);
    expect([r.at, r.above, r.high]).toEqual([2, 0, Infinity]);
    expect(r.below).toBeCloseTo(0.98, 12);
    expect(cellAt(c, 3)).toBe(c.count);
    expect(cellAt(c, c.plotTop)).toBe(c.count - 1);
  });
  it('moves nothing when there is none', () => {
    const c = layout(h, chooseAxis(h, 'linear', null, null), 400, 16, 8);
    expect([beyond(h, c), c.overPx, c.plotTop]).toEqual([0, 0, 0]);
  });
});

describe('read', () => {
  it('gives shares that sum to one and agree with a plain count', () => {
    const r = random(11);
    for (let i = 0; i < 200; i++) {
      const h = randomHeat(r);
      const c = layout(h, randomAxis(h, r), 300, 16, 8);
      const col = Math.floor(r() * h.columns);
      if (!h.columnCount[col]) continue;
      const lowest = c.underPx ? under : 0;
      const cell = lowest + Math.floor(r() * ((c.overPx ? c.count : c.count - 1) - lowest + 1));
      const got = read(h, c, col, cell);
      const [low, high] = cellBounds(h, c, cell);
      let below = 0;
      let above = 0;
      for (let k = h.first[col]; k < h.first[col + 1]; k++) {
        if (h.bounds[h.row[k] + 1] <= low) below += h.n[k];
        if (h.bounds[h.row[k]] >= high) above += h.n[k];
      }
      expect(got.below).toBeCloseTo(below / h.columnCount[col], 12);
      expect(got.above).toBeCloseTo(above / h.columnCount[col], 12);
      expect(got.below + got.same + got.above).toBeCloseTo(1, 12);
    }
  });

  it('finds the cell of a value and of a pixel', () => {
    const r = random(13);
    for (let i = 0; i < 200; i++) {
      const h = randomHeat(r);
      const c = layout(h, randomAxis(h, r), 300, 16, 8);
      if (!c.count) continue;
      const cell = Math.floor(r() * c.count);
      const [low, high] = cellBounds(h, c, cell);
      expect(cellOf(h, c, (low + high) / 2)).toBe(cell);
      expect(cellOf(h, c, high)).toBe(cell); // closed above
      expect(cellAt(c, c.top[cell])).toBe(cell);
      expect(cellAt(c, c.bottom[cell] - 1)).toBe(cell);
    }
  });

  it('has no shares where nothing happened', () => {
    const h = fromResponse(answer(0.001, 0.01, [null, [[0, 1]]]));
    const c = layout(h, chooseAxis(h, 'log', null, null), 300, 16, 8);
    expect(read(h, c, 0, 0)).toMatchObject({ count: 0, below: NaN });
  });
});

describe('densities', () => {
  const spike = (of: number) => fromResponse(answer(0.01, 0.08, Array.from({ length: 300 }, (_, c) => [[10, 3], [40, c === 150 ? of : 5]])));
  const top = (h: Heat) => densities(h, layout(h, chooseAxis(h, 'log', h.bounds[0], h.bounds[h.rows]), h.rows * 2, 0, 0));
  it.each([[5, 5], [9, 9], [11, 5], [900, 5]])('a spike of %d among fives has the colour of %d', (of, colour) => {
    expect(top(spike(of))).toEqual({ top: colour, most: of });
  });
  it('leaves counts of one their first colour', () => {
    expect(top(fromResponse(answer(0.01, 0.08, Array.from({ length: 300 }, (_, c) => [[10, 1], [40, c === 150 ? 80 : 1]]))))).toEqual({ top: 2, most: 80 });
  });
  it('is the largest where cells are few', () => {
    expect(top(fromResponse(answer(0.01, 0.08, [[[10, 1], [40, 80]]])))).toEqual({ top: 80, most: 80 });
  });
});

describe('paint', () => {
  const ground = 0xff123456;
  const ramp = rampWords('light');
  function picture(h: Heat, c: Cells, width: number, height: number): Uint32Array {
    const out = new Uint32Array(width * height);
    paint(out, h, c, { width, height, ramp, ground, scale: 'sqrt', max: densities(h, c).top });
    return out;
  }

  it('leaves the ground where there is nothing and shows a count of one', () => {
    const h = fromResponse(answer(0.01, 0.08, [[[0, 1], [50, 400]], null]));
    const c = layout(h, chooseAxis(h, 'log', null, null), 200, 0, 0);
    const out = picture(h, c, 20, 200);
    const at = (x: number, row: number) => out[c.top[c.ofRow[row]] * 20 + x];
    expect(at(0, 0)).toBe(ramp[0]);
    expect(at(0, 50)).toBe(ramp[255]);
    expect(at(15, 50)).toBe(ground); // the empty column
    expect(at(0, 25)).toBe(ground);
    expect(ramp[0]).not.toBe(ground);
  });

  it('fills the band on top', () => {
    const h = fromResponse(answer(0.001, 1, [[[10, 90], [300, 2]]]));
    const c = layout(h, chooseAxis(h, 'linear', null, 0.2), 200, 16, 8);
    const out = picture(h, c, 10, 200);
    expect(out[5]).not.toBe(ground);
    expect(out[18 * 10 + 5]).toBe(ground); // the gap below the band
  });

  it('scales to device pixels without gaps', () => {
    const h = fromResponse(answer(0.01, 0.08, [Array.from({ length: 97 }, (_, r) => [r, 5] as [number, number])]));
    const c = layout(h, chooseAxis(h, 'log', h.bounds[0], h.bounds[h.rows]), 200, 0, 0);
    for (const ratio of [1.25, 1.5, 2]) {
      const out = new Uint32Array(10 * 200 * ratio);
      paint(out, h, c, { width: 10, height: 200 * ratio, ratio, ramp, ground, scale: 'sqrt', max: 10 });
      expect(out.includes(ground)).toBe(false);
    }
  });

  it('draws a week of one service in well under 100 ms', () => {
    const r = random(3);
    const columns = Array.from({ length: 1008 }, () => Array.from({ length: 150 }, (_, k) => [k + 20, 1 + Math.floor(r() * 5000)] as [number, number]));
    const a = answer(0.001, 10, columns);
    // Of the processor, the best of several: a busy machine's clock runs on while it does other work.
    let best = Infinity;
    for (let i = 0; i < 7; i++) {
      const began = process.cpuUsage();
      const h = fromResponse(a);
      const c = layout(h, chooseAxis(h, 'log', null, null), 416, 16, 8);
      picture(h, c, 1200, 416);
      const took = process.cpuUsage(began);
      best = Math.min(best, (took.user + took.system) / 1000);
    }
    expect(best).toBeLessThan(100);
  });
});

describe('axes', () => {
  it('ends at finite numbers where buckets reach to infinity', () => {
    const whole = { ...answer(0.01, 0.1, [[[0, 6]]]), bounds: [null, null] };
    const half = { ...answer(0.01, 0.1, [[[0, 6], [1, 2]]]), bounds: [null, 0.2, null] };
    const below = { ...answer(0.01, 0.1, [[[0, 6], [1, 2]]]), bounds: [null, -3, 4] };
    for (const r of [whole, half, below]) {
      for (const kind of ['log', 'linear'] as const) {
        const h = fromResponse(r);
        const a = chooseAxis(h, kind, null, null);
        expect([Number.isFinite(a.lo), Number.isFinite(a.hi), a.lo < a.hi]).toEqual([true, true, true]);
        expect(axisTicks(a, 8).length).toBeLessThan(30);
        const cells = layout(h, a, 200, 14, 4);
        expect(columnCells(h, cells, 0, new Float64Array(cells.count + 2)).reduce((x, y) => x + y, 0)).toBe(r.count);
      }
    }
  });

  it('position and valueAt are inverse', () => {
    for (const kind of ['log', 'linear'] as const) {
      const a: Axis = { kind, lo: 0.001, hi: 5, capped: false, floored: false };
      for (const v of [0.001, 0.01, 0.2, 1, 5]) expect(valueAt(a, position(a, v))).toBeCloseTo(v, 12);
    }
  });
  it('end at round numbers outside the data, so that live data seldom moves them', () => {
    const h = fromResponse(answer(0.0012, 0.73, [[[0, 1], [290, 1]]]));
    expect(chooseAxis(h, 'log', null, null)).toMatchObject({ lo: 0.001, hi: 1 });
    const hi = chooseAxis(h, 'linear', null, null);
    expect(hi.lo).toBe(0);
    expect(hi.hi).toBe(roundUp(h.bounds[291]));
  });
  it('give the zero bucket a band on a log axis', () => {
    const h = fromResponse(answer(0.001, 0.01, [[[0, 5], [20, 5]]], true));
    const c = layout(h, chooseAxis(h, 'log', null, null), 300, 16, 8);
    expect(c.underPx).toBe(16);
    expect(read(h, c, 0, under)).toMatchObject({ at: 5, low: 0 });
  });
  it('go linear for values below zero', () => {
    const h = fromResponse({ ...answer(1, 2, [[[0, 5]]]), bounds: [-4, -2, 0, 2, 4], columns: [{ start: 1000, count: 2, sum: 0, min: -3, max: 3, rows: [0, 3], counts: [1, 1] }] });
    expect(chooseAxis(h, 'log', null, null)).toMatchObject({ kind: 'linear', lo: -4, hi: 4 });
  });
  it('have ticks inside them', () => {
    for (const [lo, hi] of [[0.001, 1], [0.0002, 0.0005], [1e-6, 1e3]]) {
      const a: Axis = { kind: 'log', lo, hi, capped: false, floored: false };
      const t = axisTicks(a, 12);
      expect(t.length).toBeGreaterThan(1);
      expect(t.every((v) => v >= lo * 0.999 && v <= hi * 1.001)).toBe(true);
    }
    expect(axisTicks({ kind: 'linear', lo: 0, hi: 0.2, capped: true, floored: false }, 10)).toEqual([0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2]);
  });
});

it('columns cover the width exactly', () => {
  const e = columnEdges(7, 100);
  expect([e[0], e[7]]).toEqual([0, 100]);
  const h = fromResponse(answer(0.001, 0.01, [null, null, null, null, null, null, null]));
  for (let x = 0; x < 100; x++) {
    const c = columnAt(h, x, 100);
    expect(e[c] <= x && x < e[c + 1]).toBe(true);
  }
});

// Explicit buckets may lack a bound on either side, or on both.
describe('open-ended buckets', () => {
  it.each<[(number | null)[]]>([[[null, null]], [[null, 0.5]], [[null, -1, 5, null]], [[null, -1]], [[0.5, null]], [[null, 0.1, 0.5, null]]])('%j have a finite axis and ticks', (bounds) => {
    const rows = bounds.slice(1).map((_, i) => i);
    const h = fromResponse({
      start: 0, end: 10, step: 10, slot: 10, family: 'f', error: null, bounds: bounds as number[], count: rows.length, max_cell: 1,
      columns: [{ start: 0, count: rows.length, sum: 1, min: null, max: null, rows, counts: rows.map(() => 1) }],
    });
    for (const kind of ['log', 'linear'] as const) {
      const a = chooseAxis(h, kind, null, null);
      expect(Number.isFinite(a.lo) && Number.isFinite(a.hi) && a.lo < a.hi).toBe(true);
      expect(axisTicks(a, 8).length).toBeLessThan(100);
    }
  });
});
