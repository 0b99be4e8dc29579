// Axes of small charts.

import type { Num } from '../api/types';

export interface Axis {
  min: number;
  max: number;
  log?: boolean;
  /** It falls from left to right. */
  turned?: boolean;
}

/** Where on an axis a value is, from 0 to 1 within it. */
export function shareOf({ min, max, log, turned }: Axis, v: number): number {
  const p = log ? Math.log(Math.max(v, 1e-300) / min) / Math.log(max / min) : (v - min) / (max - min);
  return turned ? 1 - p : p;
}

/** The value at a share of an axis; the inverse of shareOf. */
export function valueAt({ min, max, log, turned }: Axis, share: number): number {
  const p = turned ? 1 - share : share;
  return log ? min * (max / min) ** p : min + p * (max - min);
}

/** The low ends of things so wide, each around its place, in their order: none over another where there is room. */
export function places(xs: number[], width: number, wide: number): number[] {
  const out = xs.map((x) => x - wide / 2);
  for (let i = 0; i < out.length; i++) out[i] = Math.max(out[i], i ? out[i - 1] + wide + 1 : -wide / 2);
  let end = width + wide / 2;
  for (let i = out.length - 1; i >= 0; i--) {
    out[i] = Math.min(out[i], end - wide);
    end = out[i] - 1;
  }
  return out;
}

/** An axis with this many pixels of room at both ends, of a plot so wide. */
export function padded(a: Axis, pixels: number, width: number): Axis {
  const p = pixels / Math.max(1, width - 2 * pixels);
  const [lo, hi] = [valueAt(a, -p), valueAt(a, 1 + p)];
  return { ...a, min: Math.min(lo, hi), max: Math.max(lo, hi) };
}

/** An axis from zero for bars: its end, a round number above all of them, and one or two lines. */
export function barScale(values: (Num | undefined)[]): { max: number; ticks: number[] } {
  const top = Math.max(0, ...values.filter((v): v is number => v != null && Number.isFinite(v)));
  if (!(top > 0)) return { max: 1, ticks: [0] };
  const size = 10 ** Math.floor(Math.log10(top));
  const max = [1, 2, 4, 6, 8, 10].map((k) => k * size).find((m) => m >= top * 0.999999) ?? 10 * size;
  return { max: Number(max.toPrecision(6)), ticks: [0, Number((max / 2).toPrecision(6)), Number(max.toPrecision(6))] };
}

/** An SVG path through the values, interrupted where there is none; a value that stands alone is a dash as long as lone, to the left if that is negative. */
export function linePath(values: (Num | undefined)[], x: (i: number) => number, y: (v: number) => number, lone = 0.01): string {
  return values
    .map((v, i) => {
      if (v == null) return '';
      const first = values[i - 1] == null;
      return `${first ? 'M' : 'L'}${x(i).toFixed(1)} ${y(v).toFixed(1)}${first && values[i + 1] == null ? `h${lone}` : ''}`;
    })
    .join('');
}

/** Lines of a log axis: 1, 2 and 5 of each power of ten, finer ones where the axis is short, or powers alone where there is no room. */
export function logTicks(min: number, max: number, most: number): number[] {
  if (!(min > 0) || !(max > min)) return [];
  const all = (of: number[]) => {
    const out: number[] = [];
    for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++) for (const k of of) {
      const v = Number((k * 10 ** e).toPrecision(3));
      if (v >= min * 0.9999 && v <= max * 1.0001) out.push(v);
    }
    return out;
  };
  for (const of of [[1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = all(of);
    if (ticks.length <= most) return ticks;
  }
  return all([1]).filter((_, i, a) => i % Math.ceil(a.length / most) === 0);
}

/** The least and the greatest of what is drawn on a log axis, with room; undefined if nothing is. */
export function logRange(values: Num[][]): [number, number] | undefined {
  let [min, max] = [Infinity, 0];
  for (const vs of values) for (const v of vs) {
    if (v == null || !(v > 0)) continue;
    min = Math.min(min, v);
    max = Math.max(max, v);
  }
  return max > 0 ? [min / 1.15, Math.max(max * 1.15, (min / 1.15) * 1.5)] : undefined;
}

/** Lines of an axis around 1: a ratio, its half way, and their reverses. */
export function aroundTicks(max: number): number[] {
  const steps = [1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100];
  const t = [...steps].reverse().find((s) => s <= max * 0.995) ?? max;
  const half = steps.find((s) => Math.log(s) > 0.4 * Math.log(t) && Math.log(s) < 0.65 * Math.log(t));
  return half ? [1 / t, 1 / half, 1, half, t] : [1 / t, 1, t];
}

/** A symmetrical range around 1, at least a quarter either way. */
export function aroundOne(values: Num[][]): [number, number] {
  let most = Math.log(1.25);
  for (const vs of values) for (const v of vs) if (v != null && v > 0) most = Math.max(most, Math.abs(Math.log(v)) * 1.05);
  return [Math.exp(-most), Math.exp(most)];
}
