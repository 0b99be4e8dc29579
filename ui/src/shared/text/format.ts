// Numbers as a reader wants them: three significant digits, the unit that
// keeps them between 1 and 999, separators in counts, one decimal in per
// cents. A missing number is an en dash, never 0.

import type { Counts, Num } from '../api/types';
import { readersTimes } from './time';

export const missing = '–';

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** A count with separators: 122,814. */
export function count(n: Num | undefined): string {
  return n == null || !Number.isFinite(n) ? missing : grouped.format(n);
}

/** Counts where room is short: 9,120 · 12.3 k · 4.56 M. */
export function shortCount(n: Num | undefined): string {
  if (n == null || !Number.isFinite(n)) return missing;
  if (Math.abs(n) < 9999.5) return grouped.format(n);
  for (const [size, unit] of [[1e3, 'k'], [1e6, 'M'], [1e9, 'G'], [1e12, 'T']] as const) {
    const s = (n / size).toPrecision(3);
    if (Math.abs(Number(s)) < 1000) return `${Number(s) >= 100 ? grouped.format(Number(s)) : s} ${unit}`;
  }
  return n.toExponential(2);
}

/** All of them together. */
export const total = (c: Counts | undefined): number => Object.values(c ?? {}).reduce((a, b) => a + b, 0);

/** From here on a number is not written in full. */
const short = 999_999_999.5;

/** Three significant digits: 0.0123 · 1.20 · 43.1 · 1,204 · 2.00 G. The program's figure.ThreeDigits does the same. */
export function digits(n: Num | undefined): string {
  if (n == null || !Number.isFinite(n)) return missing;
  if (n < 0) return `−${digits(-n)}`;
  if (n === 0) return '0';
  if (n >= 99.95) return n < short ? grouped.format(n) : shortCount(n);
  return n < 1e-6 ? n.toExponential(2) : n.toPrecision(3);
}

/** A sentence with a stop at its end, once. */
export const stopped = (s: string): string => `${s}${/(^|[.!?])$/.test(s) ? '' : '.'}`;

/** A sentence for the page: with a stop at its end, per cent signs and units of time at their numbers, moments by the reader's clock. */
export function sentenceOf(s: string): string {
  return stopped(readersTimes(s)).replace(/(\d) (?=(%|min|days?|[mµn]?s|h)(?![\wµ]))/g, '$1\u00a0');
}

/** A sentence that may have begun in the middle of another; p99 stays as it is. */
export const capital = (s: string): string => (/^p\d/.test(s) ? s : s.charAt(0).toUpperCase() + s.slice(1));

/** A share as per cent with one decimal. Something never reads as nothing, nor nearly all as all. */
export function percent(share: Num | undefined): string {
  if (share == null || !Number.isFinite(share)) return missing;
  if (share < 0) return `−${percent(-share).replace('< ', '')}`;
  const p = share * 100;
  if (p > 0 && p < 0.05) return '< 0.1 %';
  if (p < 100 && p >= 99.95) return '> 99.9 %';
  return `${p.toFixed(1)} %`;
}

/** The share of errors, where a tenth of a per cent is a lot: 0.12 %, 3.4 %. The program's figure.Ratio does the same. */
export function errorRatio(share: Num | undefined): string {
  if (share == null || !Number.isFinite(share)) return missing;
  if (share < 0) return `−${errorRatio(-share)}`.replace('−< ', '> −');
  const p = share * 100;
  if (p === 0) return '0 %';
  if (p < 0.005) return '< 0.01 %';
  return p < 0.995 ? `${p.toFixed(2)} %` : `${p.toFixed(1)} %`;
}

/** Apdex with two decimals. Fewer than all satisfied never read as all, nor some as none. */
export function apdex(score: Num | undefined): string {
  if (score == null || !Number.isFinite(score)) return missing;
  return (score > 0 && score < 1 ? Math.min(Math.max(score, 0.01), 0.99) : score).toFixed(2);
}

/** Whether so many of the whole are worth a colour: a hundredth. The count is there from the first. */
export const much = (n: number, whole: number): boolean => n > 0 && n >= whole / 100;

interface Scale {
  size: number;
  unit: string;
  /** From how many of it on the next larger unit is written; default 1000. */
  end?: number;
}

const durations: Scale[] = [
  { size: 1e-9, unit: 'ns' },
  { size: 1e-6, unit: 'µs' },
  { size: 1e-3, unit: 'ms' },
  { size: 1, unit: 's' },
  { size: 60, unit: 'min', end: 120 },
  { size: 3600, unit: 'h', end: 48 },
  { size: 86400, unit: 'd' },
];
const bytes: Scale[] = [
  { size: 1, unit: 'B' },
  { size: 1e3, unit: 'kB' },
  { size: 1e6, unit: 'MB' },
  { size: 1e9, unit: 'GB' },
  { size: 1e12, unit: 'TB' },
];

/** What a family measures; anything but seconds and bytes is a bare number. */
export type Unit = string;

const names: Record<string, Unit> = { s: 'seconds', second: 'seconds', seconds: 'seconds', B: 'bytes', byte: 'bytes', bytes: 'bytes', ratio: 'ratio' };

/** What a check's name of a unit means, empty of any that stands behind the number. The program's figure.UnitOf does the same. */
export const unitOf = (name: string): Unit => (Object.hasOwn(names, name) ? names[name] : '');

function scalesOf(unit: Unit): Scale[] | null {
  return unit === 'seconds' ? durations : unit === 'bytes' ? bytes : null;
}

function trim(s: string): string {
  return s.includes('.') ? s.replace(/\.?0+$/, '') : s;
}

// The scale in which v shows as 1 to 999 once rounded to three digits. Seconds
// stay seconds up to 999 s: minutes need a reader to think. From two hours on it is
// hours, from two days on days, so that 6.92 h stands above 25.8 h and not 415 min.
function scaleFor(v: number, scales: Scale[]): Scale {
  const a = Math.abs(v);
  for (let i = 0; i < scales.length; i++) {
    const rounded = Number((a / scales[i].size).toPrecision(3));
    if (rounded < (scales[i].end ?? 1000)) return scales[i];
  }
  return scales[scales.length - 1];
}

const inScale = (v: number, s: Scale): string => (s.unit === 'B' && Number.isInteger(v) ? grouped.format(v) : digits(v / s.size));

/** A value with its unit: 12.0 ms · 210 ms · 1.02 s · 12 B · 4.10 kB · 0.123. The program's figure.Value does the same. */
export function value(v: Num | undefined, unit: Unit = 'seconds'): string {
  if (v == null || !Number.isFinite(v)) return missing;
  const scales = scalesOf(unit);
  if (!scales) return digits(v);
  if (v < 0) return `−${value(-v, unit)}`;
  if (v === 0) return `0 ${unit === 'seconds' ? 's' : 'B'}`;
  const s = scaleFor(v, scales);
  return `${inScale(v, s)} ${s.unit}`;
}

/** A difference of two values: "+6.68 ms", "−359 µs", "0 s". */
export const signedValue = (d: Num | undefined, unit: Unit = 'seconds'): string => (d == null || !Number.isFinite(d) ? missing : `${d > 0 ? '+' : d < 0 ? '−' : ''}${value(Math.abs(d), unit)}`);

/** A value for an axis, without trailing zeros: 100 ms · 1 s. */
export function tick(v: number, unit: Unit = 'seconds'): string {
  const scales = scalesOf(unit);
  if (v === 0) return '0';
  if (!scales) return Math.abs(v) >= 1e4 ? shortCount(v) : trim(digits(v));
  const s = scaleFor(v, scales);
  return `${trim(inScale(v, s))} ${s.unit}`;
}

/** A rate for an axis: 0, 50/s, 0.5/s. */
export function rateTick(v: number): string {
  return v === 0 ? '0' : `${Math.abs(v) >= 1e4 ? shortCount(v) : trim(digits(v))}/s`;
}

/** A share for an axis: 0, 0.5 %, 10 %. */
export function percentTick(v: number): string {
  return v === 0 ? '0' : `${trim(digits(v * 100))} %`;
}

/** Two bounds that share a unit name it once: 198–202 ms, 998 ms–1.02 s. */
export function interval(low: Num | undefined, high: Num | undefined, unit: Unit = 'seconds'): string {
  if (low == null || high == null) return missing;
  const scales = scalesOf(unit);
  if (!scales) return `${digits(low)}–${digits(high)}`;
  if (low === 0) return `0–${value(high, unit)}`;
  const a = scaleFor(low, scales);
  const b = scaleFor(high, scales);
  if (a !== b) return `${inScale(low, a)} ${a.unit}–${inScale(high, b)} ${b.unit}`;
  return `${inScale(low, a)}–${inScale(high, b)} ${a.unit}`;
}

/** The interval of an estimate as sentences have it: 5.72 … 6.20 ms, 998 ms … 1.02 s. */
export function ends(low: string, high: string): string {
  const unit = (s: string) => s.replace(/^[-−+]?[\d.,]+/, '');
  return `${unit(low) === unit(high) ? low.slice(0, low.length - unit(low).length) : low} … ${high}`;
}

/** Events per second, per hour when they are rare: 1,204 req/s · 4.20 req/s · 2.00 req/h. */
export function rate(perSecond: Num | undefined, what = 'req'): string {
  if (perSecond != null && perSecond > 0 && perSecond < 0.01) return `${digits(perSecond * 3600)} ${what}/h`;
  return perSecond == null || !Number.isFinite(perSecond) ? missing : `${digits(perSecond)} ${what}/s`;
}

/** How far a quantile may lie from the truth: ± 1.1 %. */
export function relativeError(e: Num | undefined): string {
  if (e == null || !Number.isFinite(e)) return 'error not known';
  const p = e * 100;
  return `within ${p < 1 ? p.toPrecision(1) : p.toFixed(1)} % of the true value`;
}

/** A quantile's name: 0.95 is p95, 0.999 is p99.9. */
export function quantileName(q: number | string): string {
  return `p${Number((Number(q) * 100).toFixed(6))}`;
}

/**
 * What a reader types for a value: "200 ms", "1.5s", "0.2", "250µs", "4 kB".
 * A bare number is in milliseconds when allowed to be (durations), as that is
 * what people mean by a bare 200. Undefined when it is not a value above zero.
 */
export function parseValue(text: string, unit: Unit = 'seconds'): number | undefined {
  const m = /^\s*([0-9]*[.,]?[0-9]+(?:e[+-]?\d+)?)\s*([a-zµμ]*)\s*$/i.exec(text);
  if (!m) return undefined;
  const n = Number(m[1].replace(',', '.'));
  if (!(n > 0) || !Number.isFinite(n)) return undefined;
  const name = m[2].replace('μ', 'µ').toLowerCase();
  const scales = scalesOf(unit);
  if (!scales) return name === '' ? n : undefined;
  if (name === '') return unit === 'seconds' ? n / 1000 : n;
  const alias: Record<string, string> = { us: 'µs', sec: 's', m: 'min', k: 'kb', mb: 'mb', kib: 'kb' };
  const wanted = alias[name] ?? name;
  const s = scales.find((s) => s.unit.toLowerCase() === wanted);
  // Rounded, so that 200 ms is 0.2 and not 0.20000000000000001.
  return s ? Number((n * s.size).toPrecision(12)) : undefined;
}
