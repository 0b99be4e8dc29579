// The heatmap's arithmetic: from the sparse answer to typed arrays, from an
// axis to cells of whole pixels, from cells to an image, and from a cell to the
// shares below, at and above it. No DOM in here.
//
// A *row* is a bucket of the answer, a *cell* what is drawn and pointed at: one
// row, or several where rows are thinner than a pixel. The cells tile the plot
// without gaps; what lies beyond the axis is in the band above it or the band
// below it. So every observation of a column is in exactly one cell or band,
// and the shares always sum to one.

import { intensity, rampSize, type CountScale } from './ramp';
import { wholeColumns } from './whole';
import type { HeatmapResponse } from '../api/schema';

export interface Heat {
  start: number;
  end: number;
  step: number;
  /** Columns, empty ones included. */
  columns: number;
  /** How many of them are whole; those after them are still open. */
  whole: number;
  /** Row i covers (bounds[i], bounds[i+1]]. */
  bounds: Float64Array;
  rows: number;
  /** Column c owns entries[first[c]] up to first[c+1]. */
  first: Uint32Array;
  row: Uint16Array;
  n: Float64Array;
  columnCount: Float64Array;
  columnSum: Float64Array;
  columnMin: Float64Array;
  columnMax: Float64Array;
  /** Observations per row over the whole range. */
  rowCount: Float64Array;
  count: number;
  error: number;
}

/** Reads the answer once; columns outside its range are left out. */
export function fromResponse(r: HeatmapResponse): Heat {
  const bounds = Float64Array.from(r.bounds, (b, i) => b ?? (i ? Infinity : -Infinity));
  const rows = Math.max(0, bounds.length - 1);
  const columns = r.step > 0 ? Math.max(0, Math.round((r.end - r.start) / r.step)) : 0;
  let size = 0;
  for (const c of r.columns) size += c.rows.length;
  const h: Heat = {
    start: r.start,
    end: r.end,
    step: r.step,
    columns,
    whole: wholeColumns(r, columns),
    bounds,
    rows,
    first: new Uint32Array(columns + 1),
    row: new Uint16Array(size),
    n: new Float64Array(size),
    columnCount: new Float64Array(columns),
    columnSum: new Float64Array(columns),
    columnMin: new Float64Array(columns).fill(NaN),
    columnMax: new Float64Array(columns).fill(NaN),
    rowCount: new Float64Array(rows),
    count: 0,
    error: r.error ?? NaN,
  };
  let at = 0;
  let next = 0;
  for (const c of r.columns) {
    const i = Math.round((c.start - r.start) / r.step);
    if (i < next || i >= columns) continue;
    while (next <= i) h.first[next++] = at;
    const cr = c.rows;
    const cn = c.counts;
    for (let k = 0; k < cr.length; k++) {
      h.row[at] = cr[k];
      h.n[at++] = cn[k];
      h.rowCount[cr[k]] += cn[k];
    }
    h.columnCount[i] = c.count;
    h.columnSum[i] = c.sum ?? NaN;
    h.columnMin[i] = c.min ?? NaN;
    h.columnMax[i] = c.max ?? NaN;
    h.count += c.count;
  }
  while (next <= columns) h.first[next++] = at;
  return h;
}

export type AxisKind = 'log' | 'linear';

/** The values an axis shows. */
export interface Axis {
  kind: AxisKind;
  lo: number;
  hi: number;
  /** The reader chose the end, so what lies beyond it is in a band. */
  capped: boolean;
  floored: boolean;
}

/**
 * The axis for some data. An end the reader did not choose is a round number
 * outside the data, so that live data seldom moves it.
 */
export function chooseAxis(h: Heat, kind: AxisKind, lo: number | null, hi: number | null): Axis {
  let firstRow = h.rowCount.findIndex((n) => n > 0);
  let lastRow = h.rowCount.findLastIndex((n) => n > 0);
  if (firstRow < 0) firstRow = lastRow = -1;
  // A bucket without a lower bound is drawn from zero, or from its upper bound if that is below.
  let low = firstRow < 0 ? 0 : h.bounds[firstRow];
  if (!Number.isFinite(low)) low = Math.min(0, Number.isFinite(h.bounds[firstRow + 1]) ? h.bounds[firstRow + 1] : 0);
  const linear = kind === 'linear' || low < 0;
  let dataHi = lastRow < 0 ? 1 : h.bounds[lastRow + 1];
  if (!Number.isFinite(dataHi)) dataHi = Number.isFinite(h.bounds[lastRow]) && h.bounds[lastRow] > 0 ? h.bounds[lastRow] : 1;
  if (linear) {
    const dataLo = Math.min(0, low);
    const bottom = lo ?? (dataLo < 0 ? -roundUp(-dataLo) : 0);
    const top = hi ?? roundUp(Math.max(dataHi, 1e-9));
    return { kind: 'linear', lo: Math.min(bottom, top - Number.MIN_VALUE), hi: top, capped: hi != null, floored: lo != null };
  }
  // Zero has no place on a log axis: the band below holds the zero bucket.
  let r = firstRow;
  while (r >= 0 && r < lastRow && h.bounds[r] <= 0) r++;
  const dataLo = r < 0 || h.bounds[r] <= 0 ? dataHi / 1000 : h.bounds[r];
  let top = hi ?? roundUpLog(dataHi);
  let bottom = lo ?? roundDownLog(dataLo);
  if (!(bottom > 0)) bottom = top / 1000;
  if (bottom >= top) {
    if (hi != null && lo == null) bottom = top / 10;
    else top = bottom * 10;
  }
  return { kind: 'log', lo: bottom, hi: top, capped: hi != null, floored: lo != null || (firstRow >= 0 && h.bounds[firstRow] <= 0) };
}

const mantissas = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** The next round number at or above v: 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten. */
export function roundUp(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  const m = mantissas.find((m) => m * p >= v * (1 - 1e-9)) ?? 10;
  return Number((m * p).toPrecision(6));
}

function roundUpLog(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  const m = [1, 2, 5, 10].find((m) => m * p >= v * (1 - 1e-9)) ?? 10;
  return Number((m * p).toPrecision(6));
}

function roundDownLog(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  const m = [5, 2, 1].find((m) => m * p <= v * (1 + 1e-9)) ?? 1;
  return Number((m * p).toPrecision(6));
}

/** Where a value lies on the axis: 0 at its low end, 1 at its high end, unclipped. */
export function position(a: Axis, v: number): number {
  if (a.kind === 'linear') return (v - a.lo) / (a.hi - a.lo);
  return v <= 0 ? -Infinity : Math.log(v / a.lo) / Math.log(a.hi / a.lo);
}

/** The value at a position; the inverse of position. */
export function valueAt(a: Axis, p: number): number {
  return a.kind === 'linear' ? a.lo + p * (a.hi - a.lo) : a.lo * (a.hi / a.lo) ** p;
}

/** Cells from the low end up. Pixels count down from the plot's top edge. */
export interface Cells {
  count: number;
  top: Int32Array;
  bottom: Int32Array; // exclusive
  lowRow: Int32Array;
  highRow: Int32Array; // inclusive
  /** How many rows a cell has on average where cells are coarse; else 1, though rows thinner than a pixel share one. */
  perCell: number;
  /**
   * perCell over the rows in the cell. Ink shows the mean count of so many rows, so
   * that a cell of two rows between cells of one is not a stripe.
   */
  weight: Float64Array;
  /** The cell of each row; under when below the axis, count when beyond it. */
  ofRow: Int16Array;
  /** The last row in the band below and the first in the band above. */
  underRow: number;
  overRow: number;
  plotTop: number;
  plotBottom: number; // exclusive
  /** Heights of the bands, 0 without one. */
  overPx: number;
  underPx: number;
}

export const under = -1;

/**
 * The least height of a cell: rows of few observations each are a barcode, in
 * which no density is seen. Of sampled ones alone is how many unsampled ones say as
 * much. On a linear axis rows are of many heights.
 */
export const leastPx = (h: Heat, a: Axis, alone = h.count): number => (a.kind === 'log' && Math.min(h.count, alone) < 3 * h.n.length ? 4 : 1);

/**
 * Lays rows out as cells of whole pixels, at least so many, on a plot of height
 * px. Every row that touches the axis gets its rounded extent; rows that round to
 * less join the one above them.
 */
export function layout(h: Heat, a: Axis, height: number, bandPx: number, gapPx: number, least = 1): Cells {
  const overPx = a.capped ? bandPx : 0;
  const underPx = a.floored ? bandPx : 0;
  const plotTop = overPx ? overPx + gapPx : 0;
  const plotBottom = height - (underPx ? underPx + gapPx : 0);
  const y = (v: number) => {
    const p = Math.min(1, Math.max(0, position(a, v)));
    return Math.round(plotBottom - p * (plotBottom - plotTop));
  };
  const top: number[] = [];
  const bottom: number[] = [];
  const lowRow: number[] = [];
  const highRow: number[] = [];
  const ofRow = new Int16Array(h.rows);
  let underRow = -1;
  let overRow = h.rows;
  let open = -1; // first row of a cell that has no pixel yet
  let edge = plotBottom;
  for (let r = 0; r < h.rows; r++) {
    // A bound that equals an end of the axis but for rounding is that end.
    if (h.bounds[r + 1] <= a.lo * (1 + 1e-9) && !(h.bounds[r + 1] < 0)) {
      ofRow[r] = under;
      underRow = r;
      continue;
    }
    if (h.bounds[r + 1] < a.lo || (h.bounds[r] <= 0 && a.kind === 'log')) {
      ofRow[r] = under;
      underRow = r;
      continue;
    }
    if (h.bounds[r] >= a.hi * (1 - 1e-9)) {
      overRow = Math.min(overRow, r);
      continue;
    }
    if (open < 0) {
      open = r;
      if (!top.length) edge = y(h.bounds[r]);
    }
    const e = y(h.bounds[r + 1]);
    if (e > edge - least) continue;
    const cell = top.length;
    top.push(e);
    bottom.push(edge);
    lowRow.push(open);
    highRow.push(r);
    for (let k = open; k <= r; k++) ofRow[k] = cell;
    edge = e;
    open = -1;
  }
  if (open >= 0) {
    // Rows left without pixels enough at the top join the last cell, or are the only one.
    const last = overRow - 1;
    const e = y(h.bounds[last + 1]);
    if (!top.length && e < edge) {
      top.push(e);
      bottom.push(edge);
      lowRow.push(open);
      highRow.push(last);
    }
    const cell = Math.max(0, top.length - 1);
    for (let k = open; k <= last; k++) ofRow[k] = cell;
    if (top.length) {
      highRow[cell] = last;
      top[cell] = e;
    }
  }
  for (let r = overRow; r < h.rows; r++) ofRow[r] = top.length;
  const perCell = least > 1 && top.length ? (highRow[top.length - 1] - lowRow[0] + 1) / top.length : 1;
  return {
    count: top.length,
    perCell,
    top: Int32Array.from(top),
    bottom: Int32Array.from(bottom),
    lowRow: Int32Array.from(lowRow),
    highRow: Int32Array.from(highRow),
    weight: Float64Array.from(top, (_, i) => perCell / (highRow[i] - lowRow[i] + 1)),
    ofRow,
    underRow,
    overRow,
    plotTop,
    plotBottom,
    overPx,
    underPx,
  };
}

/** Observations per cell and band of one column: [under, cell 0 … count-1, over]. */
export function columnCells(h: Heat, cells: Cells, column: number, into: Float64Array): Float64Array {
  into.fill(0);
  for (let k = h.first[column]; k < h.first[column + 1]; k++) into[cells.ofRow[h.row[k]] + 1] += h.n[k];
  return into;
}

/** The share of cells that may have the ramp's last colour without being the densest. */
export const topShare = 0.01;

/**
 * The counts per row of the cells on the axis, bands left out: the largest, and the
 * one that has the ramp's last colour. That is the largest too, unless it is more
 * than twice what 99 % of the cells stay below: one spike would take the colour
 * from all others.
 */
export function densities(h: Heat, cells: Cells): { top: number; most: number } {
  const sums = new Float64Array(cells.count + 2);
  const all = new Float64Array(h.n.length);
  let size = 0;
  for (let c = 0; c < h.columns; c++) {
    if (h.first[c] === h.first[c + 1]) continue;
    columnCells(h, cells, c, sums);
    for (let i = 1; i <= cells.count; i++) if (sums[i] > 0) all[size++] = sums[i] * cells.weight[i - 1];
  }
  if (!size) return { top: 0, most: 0 };
  const sorted = all.subarray(0, size).sort();
  const most = sorted[size - 1];
  const usual = sorted[Math.ceil((size - 1) * (1 - topShare))];
  return { top: most > 2 * usual ? Math.max(2, usual) : most, most };
}

/** The left edge in px of each column, and the right edge of the last. */
export function columnEdges(columns: number, width: number): Int32Array {
  const out = new Int32Array(columns + 1);
  for (let c = 0; c <= columns; c++) out[c] = Math.round((c * width) / columns);
  return out;
}

export interface Paint {
  /** Of the image, in device pixels. */
  width: number;
  height: number;
  /** Device pixels per pixel of the layout. */
  ratio?: number;
  ramp: Uint32Array;
  ground: number;
  scale: CountScale;
  max: number;
}

/** Paints the whole picture into RGBA words, row by row from the top left. */
export function paint(out: Uint32Array, h: Heat, cells: Cells, p: Paint): void {
  out.fill(p.ground);
  const ratio = p.ratio ?? 1;
  const edges = columnEdges(h.columns, p.width);
  const sums = new Float64Array(cells.count + 2);
  const last = rampSize - 1;
  // Most counts are small: their colours are looked up, not computed.
  const small = new Uint32Array(Math.min(4096, Math.ceil(p.max) + 1));
  for (let n = 1; n < small.length; n++) small[n] = p.ramp[Math.round(intensity(n, p.max, p.scale) * last)];
  for (let c = 0; c < h.columns; c++) {
    if (h.first[c] === h.first[c + 1]) continue;
    const x0 = edges[c];
    const x1 = Math.max(edges[c + 1], Math.min(x0 + 1, p.width));
    columnCells(h, cells, c, sums);
    for (let i = 0; i < sums.length; i++) {
      if (sums[i] === 0) continue;
      const n = i > 0 && i <= cells.count ? sums[i] * cells.weight[i - 1] : sums[i];
      const colour = n < small.length && Number.isInteger(n) ? small[n] : p.ramp[Math.round(intensity(n, p.max, p.scale) * last)];
      let y0: number, y1: number;
      if (i === 0) {
        y0 = p.height - Math.round(cells.underPx * ratio);
        y1 = p.height;
      } else if (i > cells.count) {
        y0 = 0;
        y1 = Math.round(cells.overPx * ratio);
      } else {
        y0 = Math.round(cells.top[i - 1] * ratio);
        y1 = Math.min(p.height, Math.round(cells.bottom[i - 1] * ratio));
      }
      for (let y = y0; y < y1; y++) {
        const line = y * p.width;
        for (let x = x0; x < x1; x++) out[line + x] = colour;
      }
    }
  }
}

/** What the cursor reads. Shares are of the column's observations; NaN when it has none. */
export interface Reading {
  column: number;
  cell: number; // under, 0 … count-1, or count for the band above
  start: number;
  end: number;
  low: number;
  high: number;
  count: number;
  at: number; // observations in the cell
  below: number;
  same: number;
  above: number;
}

export function read(h: Heat, cells: Cells, column: number, cell: number): Reading {
  let below = 0;
  let same = 0;
  let above = 0;
  for (let k = h.first[column]; k < h.first[column + 1]; k++) {
    const c = cells.ofRow[h.row[k]];
    if (c < cell) below += h.n[k];
    else if (c > cell) above += h.n[k];
    else same += h.n[k];
  }
  const total = below + same + above;
  const start = h.start + column * h.step;
  const [low, high] = cellBounds(h, cells, cell);
  return { column, cell, start, end: start + h.step, low, high, count: total, at: same, below: below / total, same: same / total, above: above / total };
}

/** The values a cell or a band covers. */
export function cellBounds(h: Heat, cells: Cells, cell: number): [number, number] {
  if (cell < 0) return [h.bounds[0], h.bounds[cells.underRow + 1]];
  if (cell >= cells.count) return [h.bounds[Math.min(cells.overRow, h.rows)], Infinity];
  return [h.bounds[cells.lowRow[cell]], h.bounds[cells.highRow[cell] + 1]];
}

/** The column under a pixel. */
export function columnAt(h: Heat, x: number, width: number): number {
  const edges = columnEdges(h.columns, width);
  let lo = 0;
  let hi = h.columns - 1;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (edges[mid] <= x) lo = mid;
    else hi = mid - 1;
  }
  return lo;
}

/** The cell under a pixel; ground that belongs to no cell is that of the nearest one. */
export function cellAt(cells: Cells, y: number): number {
  if (cells.overPx && y < cells.overPx) return cells.count;
  if (cells.underPx && y >= cells.plotBottom) return under;
  for (let i = 0; i < cells.count; i++) if (y >= cells.top[i]) return i;
  return Math.max(0, cells.count - 1);
}

/** The cell that holds a value. */
export function cellOf(h: Heat, cells: Cells, v: number): number {
  let lo = 0;
  let hi = h.rows - 1;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (v <= h.bounds[mid + 1]) hi = mid;
    else lo = mid + 1;
  }
  return h.rows ? cells.ofRow[lo] : 0;
}

/** How many observations of the whole range lie in the band above. */
export function beyond(h: Heat, cells: Cells): number {
  let n = 0;
  for (let r = cells.overRow; r < h.rows; r++) n += h.rowCount[r];
  return n;
}

/** Values for gridlines: decades (and 2, 5 between them) or even steps. */
export function axisTicks(a: Axis, most: number): number[] {
  const out: number[] = [];
  if (a.kind === 'linear') {
    const raw = (a.hi - a.lo) / most;
    const p = 10 ** Math.floor(Math.log10(raw));
    const step = ([1, 2, 5, 10].find((m) => m * p >= raw * (1 - 1e-9)) ?? 10) * p;
    for (let i = Math.ceil(a.lo / step - 1e-9); i * step <= a.hi * (1 + 1e-9); i++) out.push(Number((i * step).toPrecision(12)));
    return out;
  }
  const decades = Math.log10(a.hi / a.lo);
  const ms = decades * 3 <= most ? [1, 2, 5] : decades * 2 <= most ? [1, 3] : [1];
  const skip = Math.max(1, Math.ceil(decades / most));
  for (let e = Math.floor(Math.log10(a.lo) - 1e-9); e <= Math.log10(a.hi) + 1e-9; e++) {
    if (ms.length === 1 && e % skip !== 0) continue;
    for (const m of ms) {
      const v = Number((m * 10 ** e).toPrecision(6));
      if (v >= a.lo * (1 - 1e-9) && v <= a.hi * (1 + 1e-9)) out.push(v);
    }
  }
  return out;
}
