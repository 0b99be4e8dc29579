// The difference heatmap, laid out: the columns of each side in a panel of its
// own, on one value axis, the colours on one scale.

import type { CompareHeat } from '../shared/api/schema';
import { divergence } from './diverge';

export interface Stretch {
  start: number; // first column's start, seconds
  end: number;
  x: number; // pixels
  width: number;
}

export interface Panel {
  side: 'a' | 'b';
  x: number;
  width: number;
  stretches: Stretch[];
}

export interface Laid {
  step: number;
  panels: Panel[];
  low: number; // the value axis, on a log scale
  high: number;
  /** Differences at or beyond it have the ramp's last colours. */
  max: number;
  cells: Cell[];
}

export interface Cell {
  side: 'a' | 'b';
  start: number;
  requests: number;
  row: number;
  low: number;
  high: number;
  difference: number;
  t: number; // on the ramp, −1 to 1
}

/** Columns of a side that follow each other; days that are apart are stretches of their own. */
export function stretchesOf(starts: number[], step: number): { start: number; end: number }[] {
  const sorted = [...new Set(starts)].sort((a, b) => a - b);
  const out: { start: number; end: number }[] = [];
  // A gap of more than an hour, and of more than a quarter of what is before it, is no pause but another day.
  for (const t of sorted) {
    const last = out[out.length - 1];
    if (last && t - last.end <= Math.max(3600, 3 * step, (last.end - last.start) / 4)) last.end = t + step;
    else out.push({ start: t, end: t + step });
  }
  return out;
}

/**
 * Fewer, larger cells: columns of a side are taken together until they hold
 * enough requests on average for a share to be more than chance, and rows with
 * them. Differences of columns are averaged by their requests, those of rows add up.
 */
export function coarsen(h: CompareHeat, least = 400, rowsAt = 24): CompareHeat {
  const columns = h.columns;
  const requests = columns.reduce((n, c) => n + c.requests, 0);
  const sides = (['a', 'b'] as const).map((side) => columns.filter((c) => c.side === side));
  const longest = Math.max(...sides.map((s) => s.length));
  // A dozen columns a side stay, so that one sees when.
  const k = Math.max(1, Math.min(Math.round((least * columns.length) / Math.max(1, requests)), Math.floor(longest / 12)));
  const each = (k * requests) / Math.max(1, columns.length);
  const bounds = h.bounds;
  const m = each >= 4 * least ? 1 : Math.max(1, Math.round((bounds.length - 1) / rowsAt));
  if (k === 1 && m === 1) return h;
  const step = h.step * k;
  const out: CompareHeat['columns'] = [];
  for (const side of sides) {
    const first = side[0]?.start ?? 0;
    const groups = new Map<number, typeof side>();
    for (const c of side) {
      const start = first + Math.floor((c.start - first) / step) * step;
      groups.set(start, [...(groups.get(start) ?? []), c]);
    }
    for (const [start, of] of groups) {
      const total = of.reduce((n, c) => n + c.requests, 0);
      const sums = new Map<number, number>();
      for (const c of of) c.rows.forEach((r, i) => sums.set(Math.floor(r / m), (sums.get(Math.floor(r / m)) ?? 0) + ((c.differences[i] ?? 0) * c.requests) / Math.max(1, total)));
      const rows = [...sums.keys()].sort((x, y) => x - y);
      out.push({ side: of[0].side, start, requests: total, rows, differences: rows.map((r) => sums.get(r) ?? 0) });
    }
  }
  const kept = bounds.filter((_, i) => i % m === 0);
  if ((bounds.length - 1) % m) kept.push(bounds[bounds.length - 1]);
  return { ...h, step, bounds: kept, columns: out };
}

/** Lays the heatmap out over a width; undefined if there is nothing to draw. */
export function lay(h: CompareHeat | undefined, width: number, gap: number): Laid | undefined {
  const columns = (h?.columns ?? []).filter((c) => c.requests > 0);
  const bounds = h?.bounds ?? [];
  if (!h || !columns.length || bounds.length < 2) return undefined;
  const cells: Cell[] = [];
  let low = Infinity;
  let high = 0;
  for (const c of columns) {
    c.rows.forEach((row, k) => {
      const difference = c.differences[k];
      const [from, to] = [bounds[row], bounds[row + 1]];
      if (difference == null || from == null || to == null || !(to > 0)) return;
      const cell = { side: c.side, start: c.start, requests: c.requests, row, low: from > 0 ? from : to / 2, high: to, difference, t: 0 };
      cells.push(cell);
      low = Math.min(low, cell.low);
      high = Math.max(high, cell.high);
    });
  }
  if (!cells.length) return undefined;
  // One odd cell must not pale all others.
  const sizes = cells.map((c) => Math.abs(c.difference)).sort((a, b) => a - b);
  const max = Math.max(sizes[Math.floor((sizes.length - 1) * 0.995)], 1e-9);
  for (const c of cells) c.t = divergence(c.difference, max);
  const sides = (['a', 'b'] as const).map((side) => ({ side, parts: stretchesOf(columns.filter((c) => c.side === side).map((c) => c.start), h.step) })).filter((s) => s.parts.length);
  const seconds = sides.reduce((n, s) => n + s.parts.reduce((m, p) => m + p.end - p.start, 0), 0);
  const between = 4;
  const room = width - gap * (sides.length - 1) - between * sides.reduce((n, s) => n + s.parts.length - 1, 0);
  let x = 0;
  const panels = sides.map(({ side, parts }): Panel => {
    const from = x;
    const stretches = parts.map((p) => {
      const s = { ...p, x, width: ((p.end - p.start) / seconds) * room };
      x += s.width + between;
      return s;
    });
    x += gap - between;
    return { side, x: from, width: x - gap - from, stretches };
  });
  return { step: h.step, panels, low, high, max, cells };
}

/** Where a column of a side begins, in pixels; undefined if it has none. */
export function columnX(l: Laid, side: 'a' | 'b', t: number): number | undefined {
  const s = l.panels.find((p) => p.side === side)?.stretches.find((s) => t >= s.start && t < s.end);
  return s && s.x + ((t - s.start) / (s.end - s.start)) * s.width;
}

/** The side and the start of the column at a pixel; undefined between the panels. */
export function columnAt(l: Laid, x: number): { side: 'a' | 'b'; start: number } | undefined {
  for (const p of l.panels) {
    for (const s of p.stretches) {
      if (x >= s.x && x < s.x + s.width) return { side: p.side, start: s.start + Math.floor((((x - s.x) / s.width) * (s.end - s.start)) / l.step) * l.step };
    }
  }
  return undefined;
}

/** Where side B differs the most from what A leads one to expect: rows by the mean difference over B's columns. */
export function moved(l: Laid): { low: number; high: number; difference: number }[] {
  const columns = new Set(l.cells.filter((c) => c.side === 'b').map((c) => c.start)).size;
  const rows = new Map<number, { low: number; high: number; difference: number }>();
  for (const c of l.cells) {
    if (c.side !== 'b') continue;
    const r = rows.get(c.row) ?? { low: c.low, high: c.high, difference: 0 };
    r.difference += c.difference / columns;
    rows.set(c.row, r);
  }
  return [...rows.values()].sort((a, b) => a.low - b.low);
}
