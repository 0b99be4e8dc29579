// The two distributions of a comparison and the ratio of their quantiles, as
// points to draw and to read.

import type { CompareCurve } from '../api/schema';
import type { Num } from '../api/types';

export interface Cdf {
  low: number; // of the value axis
  high: number;
  points: { value: number; a: number; b: number }[]; // ascending
}

/** Both distributions where they are neither nought nor whole; undefined if there is nothing to draw. */
export function cdfOf(c: CompareCurve | undefined): Cdf | undefined {
  const points: Cdf['points'] = [];
  (c?.values ?? []).forEach((value, i) => {
    const [a, b] = [c?.a?.[i], c?.b?.[i]];
    if (value != null && value > 0 && a != null && b != null) points.push({ value, a, b });
  });
  const from = Math.max(0, points.findIndex((p) => p.a > 0.0005 || p.b > 0.0005) - 1);
  const whole = points.findIndex((p) => p.a >= 1 - 1e-9 && p.b >= 1 - 1e-9);
  const kept = points.slice(from, whole < 0 ? undefined : whole + 1);
  return kept.length > 1 ? { low: kept[0].value, high: kept[kept.length - 1].value, points: kept } : undefined;
}

/** The shares up to a value, between points on a log axis. */
export function sharesAt(c: Cdf, value: number): { a: number; b: number } {
  const i = c.points.findIndex((p) => p.value >= value);
  if (i < 0) return { a: 1, b: 1 };
  const q = c.points[i];
  const p = c.points[i - 1];
  if (!p) return { a: q.a, b: q.b };
  const f = Math.log(value / p.value) / Math.log(q.value / p.value);
  return { a: p.a + f * (q.a - p.a), b: p.b + f * (q.b - p.b) };
}

/** The least share beyond that is drawn on a log scale: a decade no request may be in is left out. */
export function tailFloor(c: Cdf): number {
  const least = Math.min(...c.points.flatMap((p) => [1 - p.a, 1 - p.b]).filter((s) => s > 1e-9));
  return Number.isFinite(least) ? 10 ** Math.floor(Math.log10(least)) : 0.001;
}

export interface Ratio {
  p: number;
  x: number; // on a scale of −log(1−p), 0 to 1
  ratio: number;
  low: Num;
  high: Num;
  a: Num;
  b: Num;
}

/** The scale on which every further nine is equally wide, from the first quantile to the last. */
export function quantileScale(ps: number[]): { at: (p: number) => number; of: (x: number) => number } {
  const t = (p: number) => -Math.log10(1 - Math.min(p, 0.99999));
  const [from, to] = [t(Math.min(...ps)), t(Math.max(...ps))];
  const wide = to - from || 1;
  return { at: (p) => (t(p) - from) / wide, of: (x) => 1 - 10 ** -(from + x * wide) };
}

export function ratiosOf(c: CompareCurve | undefined): Ratio[] {
  const ps = (c?.ps ?? []).filter((p): p is number => p != null && p > 0 && p < 1);
  if (!ps.length) return [];
  const scale = quantileScale(ps);
  return (c?.ps ?? []).flatMap((p, i) => {
    const ratio = c?.ratio?.[i];
    if (p == null || ratio == null || !(ratio > 0)) return [];
    return [{ p, x: scale.at(p), ratio, low: c?.low?.[i] ?? null, high: c?.high?.[i] ?? null, a: c?.quantiles_a?.[i] ?? null, b: c?.quantiles_b?.[i] ?? null }];
  });
}

/** A log axis around 1 that holds the ratios, and their band up to eight times. */
export function ratioAxis(rs: Ratio[]): { span: number; ticks: number[] } {
  let span = Math.log(1.1);
  for (const r of rs) {
    span = Math.max(span, Math.abs(Math.log(r.ratio)) * 1.1);
    for (const v of [r.low, r.high]) if (v != null && v > 0) span = Math.max(span, Math.min(Math.log(8), Math.abs(Math.log(v))) * 1.05);
  }
  const steps = [1.02, 1.05, 1.1, 1.2, 1.5, 2, 4, 10, 100];
  const step = steps.find((s) => span / Math.log(s) <= 2.6) ?? 100;
  const ticks = [1];
  for (let r = step; Math.log(r) < span; r *= step) ticks.push(r, 1 / r);
  return { span, ticks: ticks.sort((a, b) => a - b) };
}
