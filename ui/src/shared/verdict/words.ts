// How a comparison is said: the word first, with a sign, then the size, then
// the interval.

import { count, missing, rate, value, capital, stopped } from '../text/format';
import { momentName, readersTimes, slotName, spanName } from '../text/time';
import type { Num } from '../api/types';
import type { CompareFigure, CompareMeasure, CompareSide, CompareWarning, Verdict } from '../api/schema';

export type Tone = 'worse' | 'better' | 'mixed' | 'plain' | 'warn';

/** What several measures are allowed alike, as one sentence below them; and what one is allowed otherwise. */
export function allowances(measures: { allowed?: string }[]): { common: string; own: (m: { allowed?: string }) => string } {
  const times = (a: string | undefined) => measures.filter((m) => m.allowed === a).length;
  const [common] = measures.map((m) => m.allowed).filter((a) => a && times(a) > 1).sort((a, b) => times(b) - times(a));
  const own = (m: { allowed?: string }) => (m.allowed && m.allowed !== common ? m.allowed : '');
  return { common: common ? `${capital(common)}${measures.some(own) ? ', unless a row says otherwise' : ''}.` : '', own };
}

/** A sign and what a verdict amounts to: colour is never alone. */
export function verdictSign(word: string, change?: string): { sign: string; tone: Tone } {
  const tone: Tone = change === 'worse' ? 'worse' : change === 'better' ? 'better' : 'plain';
  switch (word) {
    case 'regression': return { sign: '!', tone: 'worse' };
    case 'improvement': return { sign: '✓', tone: 'better' };
    case 'changed': return { sign: '≠', tone: 'mixed' };
    case 'mixed': return { sign: '±', tone: 'mixed' };
    case 'same': return { sign: '=', tone: 'plain' };
    case 'within tolerance': return { sign: '=', tone: 'plain' };
    case 'drifts': return { sign: '~', tone: 'plain' };
    case 'no evidence': return { sign: '?', tone: 'plain' };
    case 'within the noise floor': return { sign: '≈', tone: 'plain' };
    case 'fewer errors': return { sign: '↓', tone: 'better' };
    case 'more errors': return { sign: '↑', tone: 'worse' };
    case 'too little data': return { sign: '…', tone: 'plain' };
    case 'slower': case 'higher': case 'more': return { sign: '↑', tone: tone === 'plain' && word === 'slower' ? 'worse' : tone };
    case 'faster': case 'lower': case 'less': case 'fewer': return { sign: '↓', tone: tone === 'plain' && word === 'faster' ? 'better' : tone };
    case 'CRITICAL': return { sign: '✕', tone: 'worse' };
    case 'WARNING': return { sign: '!', tone: 'warn' };
    case 'UNKNOWN': return { sign: '?', tone: 'mixed' };
    case 'PENDING': return { sign: '…', tone: 'plain' };
    case 'OK': return { sign: '✓', tone: 'plain' };
    case 'different': return { sign: '≠', tone: 'mixed' };
    case 'found': return { sign: '✓', tone: 'plain' };
    case 'at least': return { sign: '≥', tone: 'plain' };
    case 'below': return { sign: '✕', tone: 'worse' };
  }
  return { sign: '·', tone };
}

/** Two significant digits, or all before the point, as the server's sentences have them. */
export function twoDigits(v: Num | undefined): string {
  if (v == null || !Number.isFinite(v)) return '';
  const a = Math.abs(v);
  if (a < 1e-6) return '0';
  if (a >= 9.95) return a > 99 && a < 99.95 && Math.abs(v - Math.round(v)) > 0.0499 ? v.toFixed(1) : v.toFixed(0);
  const s = v.toFixed(Math.max(0, 1 - Math.floor(Math.log10(a))));
  return s.includes('.') ? s.replace(/\.?0+$/, '') : s;
}

/** A ratio as the server's sentences have it: of thousands two significant digits, in groups of three. */
export function times(v: Num | undefined): string {
  if (v == null || !(v >= 999.5) || !Number.isFinite(v)) return twoDigits(v);
  const unit = 10 ** (Math.floor(Math.log10(v)) - 1);
  return (Math.round(v / unit) * unit).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Per cent that something is less by: 99.98 is not 100, for then nothing would be left. */
function lessBy(v: Num): string {
  if (v != null && v > 99 && v < 100) {
    const s = v.toFixed(Math.min(6, 1 + Math.floor(-Math.log10(100 - v) + 1e-9)));
    if (!s.startsWith('100')) return s.replace(/\.?0+$/, '');
  }
  return twoDigits(v);
}

/** From where on what is left of a time says less in per cent, which all end at 100, than in how many times as fast it is. */
const manyTimes = 20;
const over = (v: Num): Num => (v == null || v <= 0 ? null : 1 / v);

const isErrors = (m: Pick<CompareMeasure, 'name'>) => m.name === 'errors';
const ofRatio = (m: Pick<CompareMeasure, 'scale'>) => m.scale === 'ratio';

/** A figure of a side. */
export function figure(m: Pick<CompareMeasure, 'name' | 'scale'>, v: Num, unit: string): string {
  if (v == null) return missing;
  if (isErrors(m)) return `${twoDigits(v * 100)} %`;
  if (m.name === 'apdex') return v.toFixed(3);
  if (m.name === 'rate') return rate(v, '').replace(' /', '/');
  return value(v, unit);
}

/** An effect in per cent of change, points of a share, or as a score. */
export const change100 = (m: Pick<CompareMeasure, 'name' | 'scale'>, v: Num): Num => (v == null ? null : ofRatio(m) ? 100 * (v - 1) : isErrors(m) ? 100 * v : v);
const unitOf = (m: Pick<CompareMeasure, 'name' | 'scale'>) => (ofRatio(m) ? ' %' : isErrors(m) ? ' points' : '');

function signed(m: Pick<CompareMeasure, 'name' | 'scale'>, v: Num): string {
  const d = twoDigits(v == null ? v : Math.abs(v));
  if (d === '') return 'unknown';
  return `${d === '0' ? '' : v! < 0 ? '−' : '+'}${d}${unitOf(m)}`;
}

/** The ends of an interval; points are named once. */
function ends(m: Pick<CompareMeasure, 'name' | 'scale'>, low: string, high: string): string {
  if (ofRatio(m) || !isErrors(m)) return `${low} … ${high}`;
  return low === high ? low : `${low.replace(' points', '')} … ${high}`;
}

const between = (low: string, high: string, unit: string) => (high === '' ? `${low}${unit} or more` : low === '' ? `up to ${high}${unit}` : `${low} … ${high}${unit}`);

/** A verdict behind a size: 0.4 points higher. */
const adjective: Record<string, string> = { 'more errors': 'higher', 'fewer errors': 'lower' };

const plain: Record<string, string> = { slower: 'slow', faster: 'fast', higher: 'high', lower: 'low', more: 'much', less: 'little' };

/** How many times one figure is the other, as the server's sentences have it: 2.7 times as slow. */
export const timesAs = (ratio: string, word: string): string => `${ratio} times as ${plain[word] ?? word}`;

/** What a ratio says in words: "38.0 % less", "3.2 times as much", "as before". */
export function ratioWords(before: Num | undefined, after: Num | undefined, more: string, less: string): string {
  if (before == null || after == null || !Number.isFinite(before) || !Number.isFinite(after)) return '';
  if (before === 0) return after === 0 ? 'as before' : `${more} from none`;
  if (after === 0) return `${less} to none`;
  const r = after / before;
  if (Math.abs(r - 1) < 0.0005) return 'as before';
  if (r >= 2) return timesAs(times(r), more);
  if (r <= 1 / manyTimes && less === 'faster') return timesAs(times(1 / r), less); // as verdicts say it
  return r > 1 ? `${((r - 1) * 100).toFixed(1)} % ${more}` : `${((1 - r) * 100).toFixed(1)} % ${less}`;
}

/** The size of an effect and its interval: "38 % faster (33 … 42 %)"; "+1.2 % (−3 % … +5.6 %)" where no direction is sure. */
export function effectWords(m: Pick<CompareMeasure, 'name' | 'scale'>, f: Pick<CompareFigure, 'effect' | 'low' | 'high'> & { verdict?: Verdict }): { size: string; interval: string } {
  if (f.effect == null || f.verdict === 'too little data') return { size: missing, interval: '' };
  const [size, low, high] = [change100(m, f.effect), change100(m, f.low), change100(m, f.high)];
  const word = adjective[f.verdict ?? ''] ?? f.verdict ?? '';
  if (!['faster', 'slower', 'lower', 'higher'].includes(word)) {
    return { size: signed(m, size), interval: f.low == null && f.high == null ? '' : ends(m, signed(m, low), signed(m, high)) };
  }
  if (ofRatio(m) && f.effect >= 2) return { size: timesAs(times(f.effect), word), interval: between(times(f.low), times(f.high), '') };
  if (ofRatio(m) && f.effect > 0 && f.effect <= 1 / manyTimes) return { size: timesAs(times(1 / f.effect), word), interval: between(times(over(f.high)), times(over(f.low)), '') };
  const [l, h] = size! < 0 ? [high == null ? null : -high, low == null ? null : -low] : [low, high];
  const write = ofRatio(m) && size! < 0 ? lessBy : twoDigits;
  return { size: `${write(Math.abs(size!))}${unitOf(m)} ${word}`, interval: between(write(l), write(h), unitOf(m)) };
}

/** The figure that the verdict is of. */
export const judged = (m: CompareMeasure): CompareFigure => m.like_for_like ?? m.raw;

/** Seconds as people plan: 40 s, 25 min, 3 h, 2 days. */
export function planned(seconds: number): string {
  const up = (unit: number) => Math.ceil(seconds / unit - 1e-9); // 60.000000001 s are a minute
  if (seconds < 90) return `${up(1)} s`;
  if (seconds < 90 * 60) return `${up(60)} min`;
  return seconds < 36 * 3600 ? `${up(3600)} h` : `${up(86400)} days`;
}

const neededOf = (f: CompareFigure): string => (f.needed_windows ? `${count(f.needed_windows)} window${f.needed_windows === 1 ? '' : 's'}` : planned(f.needed_seconds ?? 0));

/** What more data would take, where there is too little or no evidence. */
export function needs(m: CompareMeasure): string {
  const f = judged(m);
  if (f.judged_at) return `the newest stretch is still coming, and can be judged at ${momentName(f.judged_at)}`;
  if (m.verdict === 'too little data') return [f.short, f.needed_seconds != null && (f.needed ?? 0) > 1 ? `about ${neededOf(f)} a side may do` : ''].filter(Boolean).join('; ');
  if (m.verdict !== 'no evidence' || f.needed == null || f.needed <= 1 || f.needed_seconds == null) return '';
  return `needs about ${neededOf(f)} a side`;
}

/** What more data would take, of each measure that the one before does not say already: the same reason with other numbers is one reason. */
export function needsOnce(measures: CompareMeasure[]): string[] {
  const reason = (s: string) => s.split('; about ')[0].replace(/[\d.,]+/g, '');
  return measures.map((m, i) => (i > 0 && measures[i - 1].verdict === m.verdict && reason(needs(measures[i - 1])) === reason(needs(m)) ? '' : needs(m)));
}

/** When a side was: one stretch, or how many windows and how long they are together. */
export function sideTime(side: Pick<CompareSide, 'start' | 'end' | 'windows'>, zone?: string): string {
  const windows = side.windows ?? [];
  if (!windows.length) return slotName(side.start, side.end, zone);
  return `${windows.length} window${windows.length === 1 ? '' : 's'}, ${spanName(windows.reduce((s, w) => s + w.end - w.start, 0))} in all`;
}

/** How much a measure may differ and be the same, on its own scale: a ratio above 1, or a difference. */
export const marginOf = (m: Pick<CompareMeasure, 'name' | 'scale'>, within: number): number => (ofRatio(m) ? 1 + within : isErrors(m) ? 0.001 : 0.01);

export const marginWords = (m: Pick<CompareMeasure, 'name' | 'scale'>, within: number): string => (ofRatio(m) ? `${twoDigits(within * 100)} %` : isErrors(m) ? '0.1 points' : '0.01');

/** A warning as a sentence; what to type for a season is a button on the page. */
export function warningText({ code, text }: CompareWarning): string {
  const t = code === 'season' ? text.replace(/,? (such as|b=).*$/, '') : text;
  return capital(stopped(readersTimes(t)));
}

/** What a warning asks of the reader. */
export const warningAdvice: Record<string, string> = {
  mix: 'Go by the like-for-like column, not by the raw one.',
  coverage: 'Choose longer sides, or filter to operations that both have.',
  errors: 'Durations are of good and failed requests together: look at one status alone, or at what failed.',
  saturation: 'Look at the rate and the queue before the code: less was answered, more slowly.',
  instrumentation: 'What is measured may have changed rather than how fast it is: check the instrumentation of both sides.',
  season: 'Compare with the same hours of another day.',
  days: 'Choose fewer days, or days like it that were measured.',
  series: 'Compare what is per request, or an instance alone.',
  load: 'Tick “per request” above.',
  marks: 'Shorten the sides so that they hold one change only.',
  environments: 'Choose one above.',
  spike: 'Choose sides without it: an average over it says little of either.',
};

/** The common axis of the ratios: a symmetrical log scale around 1 that holds every interval, cut at 16 times or, where an effect itself is larger, beyond it. */
export function ratioScale(measures: CompareMeasure[], within: number): { span: number; ticks: number[]; at: (ratio: number) => number } {
  let most = Math.log(1 + 2 * within);
  let cut = Math.log(16);
  for (const m of measures) {
    if (!ofRatio(m)) continue;
    const f = judged(m);
    if (f.effect != null && f.effect > 0) cut = Math.min(Math.log(1000), Math.max(cut, Math.abs(Math.log(f.effect)) * 1.2));
    for (const v of [f.effect, f.low, f.high]) if (v != null && v > 0) most = Math.max(most, Math.abs(Math.log(v)) * 1.08);
  }
  const span = Math.min(most, cut);
  const steps = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 4, 8, 10, 30, 100];
  const tick = [...steps].reverse().find((s) => Math.log(s) < span * 0.85) ?? 1.01;
  return { span, ticks: [1 / tick, 1, tick], at: (r) => Math.min(1, Math.max(0, 0.5 + Math.log(r) / (2 * span))) };
}

/** The axis of one measure that is judged by its difference: zero in the middle. */
export function differenceScale(m: CompareMeasure, within: number): { span: number; at: (d: number) => number } {
  const f = judged(m);
  const span = Math.max(2 * marginOf(m, within), ...[f.effect, f.low, f.high].map((v) => Math.abs(v ?? 0) * 1.08));
  return { span, at: (d) => Math.min(1, Math.max(0, 0.5 + d / (2 * span))) };
}
