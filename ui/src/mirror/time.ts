// A session over time: the timeline's groups as lines, one colour a variant and
// one dash a quantile, on whole steps of a common time.

import type { Num, TimelineGroup, TimelineResponse } from '../shared/api/types';

/** Tokens of the variants: the primary as text, the control as the side that is compared with, candidates in order. */
export function variantToken(role: string, nth: number): string {
  if (role === 'primary') return '--text';
  if (role === 'control') return '--mean';
  return ['--accent', '--quantile', '--better', '--external', '--cache'][nth % 5];
}

export const groupOf = (t: TimelineResponse | undefined, variant: string): TimelineGroup | undefined => t?.groups?.find((g) => g.labels.variant === variant);

/** A quantile of a group, as long as the times. */
export const quantileOf = (t: TimelineResponse | undefined, variant: string, q: string): Num[] => fit(groupOf(t, variant)?.quantiles?.[q], t);

/** How much a variant was asked, all its groups together; null where there is none. */
export const ratesOf = (t: TimelineResponse | undefined, variant: string): Num[] => {
  const of = (t?.groups ?? []).filter((g) => g.labels.variant === variant).map((g) => fit(g.rate, t));
  return (t?.times ?? []).map((_, i) => of.reduce<Num>((sum, r) => (r[i] == null ? sum : (sum ?? 0) + r[i]), null));
};

/** The share of them with the status error; null where there are none. */
export const errorsOf = (t: TimelineResponse | undefined, variant: string): Num[] => {
  const bad = fit(t?.groups?.find((g) => g.labels.variant === variant && g.labels.status === 'error')?.rate, t);
  return ratesOf(t, variant).map((all, i) => (all ? (bad[i] ?? 0) / all : null));
};

function fit(values: Num[] | null | undefined, t: TimelineResponse | undefined): Num[] {
  return (t?.times ?? []).map((_, i) => values?.[i] ?? null);
}

/** Lines of a log axis: 1, 2 and 5 of each power of ten, or powers alone where there is no room. */
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
  for (const of of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
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
