// The list of services: what each is like now beside what is usual, and its strip. Pure.

import type { Service, ServicesResponse, UsualBand } from '../shared/api/schema';
import type { Num } from '../shared/api/types';
import { fromResponse, type Heat, type Reading } from '../shared/chart/heat';
import { count, ends, errorRatio, percent, rate, value } from '../shared/text/format';
import { clockName } from '../shared/text/time';

export type Figure = 'rate' | 'errors' | 'p50' | 'p99';

const ranks = ['worse', 'odd', 'well'];

/** How far up a service stands: the worst first, what is not known last. */
export const rank = (s: Pick<Service, 'state'>): number => ranks.length - (ranks.indexOf(s.state ?? '') + 1 || ranks.length + 1) + 1;

/** A figure of now. */
export function nowOf(s: Service, f: Figure): Num {
  const n = s.now;
  if (!n) return null;
  return f === 'rate' ? n.rate : !n.requests ? null : f === 'errors' ? n.error_ratio : n.quantiles[f === 'p50' ? '0.5' : '0.99'];
}

const texts: Record<Figure, (v: Num) => string> = { rate: (v) => rate(v), errors: errorRatio, p50: (v) => value(v), p99: (v) => value(v) };

/** A figure with its unit. */
export const figureText = (f: Figure, v: Num): string => texts[f](v);

export const bandOf = (s: Service, f: Figure): UsualBand | undefined => s.usual?.[f === 'errors' ? 'error_ratio' : f];

/** The band of a figure: 54.1 … 63.0 req/s; empty if it is not known. */
export function bandText(f: Figure, b: UsualBand | undefined): string {
  return b?.low == null || b.high == null ? '' : ends(texts[f](b.low), texts[f](b.high));
}

/** What is said below a figure of what is usual: its band, or why there is none. */
export const usualText = (s: Service, f: Figure): string => bandText(f, bandOf(s, f)) || (s.usual ? 'too few' : f === 'rate' ? 'not known yet' : '\u00a0');

/** The strip of a service as a heatmap; undefined without one. */
export function stripHeat(d: Pick<ServicesResponse, 'start' | 'end' | 'step' | 'whole_until'>, s: Service): Heat | undefined {
  const strip = s.strip;
  if (!strip) return undefined;
  const columns = strip.counts.flatMap((counts, i) => (counts.length
    ? [{ start: d.start + i * d.step, count: counts.reduce((a, b) => a + b, 0), sum: null, min: null, max: null, rows: counts.map((_, k) => strip.from[i] + k), counts }]
    : []));
  return fromResponse({ ...d, family: '', slot: d.step, bounds: strip.bounds, columns, error: s.error, count: s.requests, max_cell: 0 });
}

/** What a cursor on a strip reads: "14:32, 92.0 % of 1,204 requests are below 120 ms". */
export function stripWords(r: Reading): string {
  const at = clockName(r.start);
  if (!r.count) return `${at}, no requests`;
  if (!Number.isFinite(r.high)) return `${at}, ${percent(r.below)} of ${count(r.count)} requests are below ${value(r.low)}`;
  return `${at}, ${percent(r.below + r.same)} of ${count(r.count)} requests are below ${value(r.high)}`;
}
