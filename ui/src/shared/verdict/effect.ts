// How the judgement of a session is drawn and said: effects beside the noise
// floor on one log axis around 1, rows in the order that is asked for, and the
// same for a report and a spreadsheet.

import { effectWords, twoDigits, verdictSign, type Tone } from './words';
import type { MirrorMeasure, MirrorRow, MirrorVerdictResponse } from '../api/schema';
import { csvCell, markdownCell } from '../text/export';
import { count, value } from '../text/format';
import { slotName } from '../text/time';
import type { Num } from '../api/types';

export const measureNames: Record<string, string> = {
  ratio: 'Per request', per_request: 'Per request', mean: 'Mean', errors: 'Errors', apdex: 'Apdex', rate: 'Rate', value: 'Value', first_byte: 'First byte, p50', bytes: 'Bytes of the answer',
};
/** p999 as it is said elsewhere: p99.9. */
export const plainName = (name: string) => name.replace(/^p99(9+)$/, 'p99.$1').replaceAll('_', ' ');
export const measureName = (m: string) => measureNames[m] ?? plainName(m);

export const isDifference = (name: string) => name === 'errors';

/** Those of the chart: the per-request ratio first, then in the server's order. */
export const ratiosFirst = (ms: MirrorMeasure[] | undefined): MirrorMeasure[] => {
  const all = ms ?? [];
  return [...all.filter((m) => m.name === 'ratio'), ...all.filter((m) => m.name !== 'ratio' && !isDifference(m.name)), ...all.filter((m) => isDifference(m.name))];
};

const plainWords = ['within the noise floor', 'same', 'within tolerance', 'drifts', 'no evidence', 'too little data', ''];

/** Better or worse where the verdict says that the interval leaves the floor. */
export function tone(verdict: string): Tone {
  if (plainWords.includes(verdict)) return 'plain';
  if (/^(faster|fewer|improvement)/.test(verdict)) return 'better';
  if (/^(slower|more errors|regression)/.test(verdict)) return 'worse';
  return verdictSign(verdict).tone === 'plain' ? 'mixed' : verdictSign(verdict).tone;
}

/** A figure of the reference or the candidate. */
export function figureOf(m: Pick<MirrorMeasure, 'name'>, v: Num): string {
  if (v == null) return '–';
  if (m.name === 'errors') return `${twoDigits(v * 100)} %`;
  if (m.name === 'ratio') return ratioText(v);
  return value(v, m.name === 'bytes' ? 'bytes' : 'seconds');
}

/** × 1.04, with as many digits as tell it from 1. */
export function ratioText(r: Num | undefined): string {
  if (r == null || !Number.isFinite(r)) return '–';
  if (r > 0.95 && r < 1.05) return `× ${r.toFixed(3)}`;
  return `× ${r >= 99.5 ? count(r) : r.toPrecision(3)}`;
}

/** A ratio on an axis, with the digits that tell it from 1 and no more: × 0.91, × 1.005, × 4. */
export function ratioTick(r: number): string {
  if (Math.abs(r - 1) < 1e-9) return '1';
  const far = Math.abs(Math.log(r));
  return `× ${Number(far < 0.02 ? r.toFixed(3) : far < 0.2 ? r.toFixed(2) : r.toPrecision(2))}`;
}

/** An effect and its interval in words, as comparisons say it. */
export function effectOf(m: MirrorMeasure): { size: string; interval: string } {
  return effectWords({ name: m.name, scale: isDifference(m.name) ? 'difference' : 'ratio' }, m);
}

/** A text that is not broken between a number and its unit. */
export const unbroken = (s: string) => s.replace(/ (?=(%|points)(?!\w))/g, '\u00a0');

/** The noise floor in words: ± 2.2 %; of errors ± 0.06 points. */
export function floorText(m: MirrorMeasure): string {
  return m.noise == null ? '' : `± ${twoDigits(m.noise * 100)} ${isDifference(m.name) ? 'points' : '%'}`;
}

/** What control against primary differed by: −1.2 % to +0.8 %. */
export function controlText(m: MirrorMeasure): string {
  return m.floor_low == null || m.floor_high == null ? '' : effectWords({ name: m.name, scale: isDifference(m.name) ? 'difference' : 'ratio' }, { effect: m.floor, low: m.floor_low, high: m.floor_high }).interval;
}

/** From where to where nothing is an effect; undefined if that is not known. */
export function floorOf(m: MirrorMeasure): [number, number] | undefined {
  if (m.noise == null || m.effect == null) return undefined;
  return isDifference(m.name) ? [-m.noise, m.noise] : [1 / (1 + m.noise), 1 + m.noise];
}

/** How unlike the two answers to one request are: 10 % of requests at × 0.75 or less, 90 % at × 1.16 or less. */
export function pointsText(m: MirrorMeasure | undefined): string {
  return (m?.points ?? []).filter((x) => x.quantile != null && x.quantile !== 0.5 && x.ratio != null).map((x) => `${twoDigits(x.quantile! * 100)}\u00a0% of requests at ${ratioText(x.ratio).replace(' ', '\u00a0')} or less`).join(', ');
}

export interface Scale {
  span: number;
  ticks: number[];
  /** 0 at the left, 1 at the right. */
  at: (v: number) => number;
}

const steps = [1.001, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100];

/** A log axis around 1 that holds all effects, and their intervals and floors as far as 16 times. */
export function ratioAxis(ms: MirrorMeasure[]): Scale {
  let most = Math.log(1.01);
  let cut = Math.log(16);
  for (const m of ms) {
    if (isDifference(m.name)) continue;
    if (m.effect != null && m.effect > 0) cut = Math.max(cut, Math.min(Math.log(1000), Math.abs(Math.log(m.effect)) * 1.2));
    for (const v of [m.effect, m.low, m.high, ...(floorOf(m) ?? [])]) if (v != null && v > 0) most = Math.max(most, Math.abs(Math.log(v)) * 1.08);
  }
  // Of round widths only, so that it does not tremble while live.
  const span = Math.min(cut, most <= 0.02 ? Math.ceil(most * 500) / 500 : most <= 0.2 ? Math.ceil(most * 50) / 50 : Math.ceil(most * 5) / 5);
  const tick = [...steps].reverse().find((s) => Math.log(s) < span * 0.85) ?? steps[0];
  return { span, ticks: [1 / tick, 1, tick], at: (r) => Math.min(1, Math.max(0, 0.5 + Math.log(r) / (2 * span))) };
}

/** The axis of a difference: zero in the middle. */
export function differenceAxis(m: MirrorMeasure): Scale {
  const span = Math.max(0.002, ...[m.effect, m.low, m.high, ...(floorOf(m) ?? [])].map((v) => Math.abs(v ?? 0) * 1.08));
  return { span, ticks: [0], at: (d) => Math.min(1, Math.max(0, 0.5 + d / (2 * span))) };
}

export const leadOf = (r: MirrorRow): MirrorMeasure | undefined => r.measures.find((m) => m.name === r.lead) ?? r.measures[0] ?? undefined;

export const rowSorts = ['surest', 'name', 'requests', 'effect'] as const;
export type RowSort = (typeof rowSorts)[number];

/** Which way the rows are sorted, of the address: a leading minus turns it round. */
export function rowSort(s: string): { by: RowSort; turned: boolean } {
  const by = rowSorts.find((k) => k === s.replace(/^-/, ''));
  return { by: by ?? 'surest', turned: by !== undefined && s.startsWith('-') };
}

/** Rows in order; the surest first is the server's own. Of effects the largest change first, whichever way. */
export function sortedRows(rows: MirrorRow[] | undefined, sort: string): MirrorRow[] {
  const { by, turned } = rowSort(sort);
  const out = [...(rows ?? [])];
  const size = (r: MirrorRow) => {
    const m = leadOf(r);
    return m?.effect == null ? -1 : isDifference(m.name) ? Math.abs(m.effect) : m.effect > 0 ? Math.abs(Math.log(m.effect)) : 0;
  };
  if (by === 'name') out.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  else if (by === 'requests') out.sort((a, b) => b.requests - a.requests);
  else if (by === 'effect') out.sort((a, b) => size(b) - size(a));
  return turned ? out.reverse() : out;
}

/** One line per candidate, scope and measure. */
export function verdictCsv(r: MirrorVerdictResponse): string {
  const out = ['candidate,against,scope,of,requests,measure,reference,candidate_value,effect,low,high,floor,floor_low,floor_high,noise,p,adjusted_p,verdict'];
  for (const c of r.candidates) {
    const lines = (scope: string, of: string, requests: number, ms: MirrorMeasure[]) => {
      for (const m of ms) out.push([csvCell(c.candidate), csvCell(c.against), scope, csvCell(of), requests, m.name, m.reference, m.candidate, m.effect, m.low, m.high, m.floor, m.floor_low, m.floor_high, m.noise, m.p, m.adjusted_p, m.verdict].map((x) => x ?? '').join());
    };
    lines('all', '', c.requests, c.measures);
    for (const o of c.operations) lines('operation', o.name, o.requests, o.measures);
    for (const t of c.tenants) lines('tenant', t.name, t.requests, t.measures);
  }
  return `${out.join('\n')}\n`;
}

/** A short report in Markdown. */
export function verdictMarkdown(r: MirrorVerdictResponse, name: string, address: string): string {
  const out = [`## ${name}`, '', `${slotName(r.start, r.end)}. [Open it](${address})`];
  for (const c of r.candidates) {
    out.push('', `### ${markdownCell(c.candidate)}: ${c.verdict}`, '', c.headline, '');
    if (r.allow) out.push(`Allowed: ${markdownCell(r.allow)}.`, '');
    if (c.caveat) out.push(`> ${c.caveat}`, '');
    out.push(`| ${count(c.requests)} requests | ${markdownCell(c.against)} | ${markdownCell(c.candidate)} | effect | interval | noise floor | verdict |`, '|---|---:|---:|---|---|---|---|');
    for (const m of ratiosFirst(c.measures)) out.push(measureLine(measureName(m.name), m));
    for (const [what, rows] of [['Operation', c.operations], ['Tenant', c.tenants]] as const) {
      const left = (rows ?? []).filter((x) => tone(x.verdict) !== 'plain');
      if (!left.length) continue;
      out.push('', `| ${what} | | | effect | interval | noise floor | verdict |`, '|---|---:|---:|---|---|---|---|');
      for (const x of left) {
        const m = leadOf(x);
        if (m) out.push(measureLine(`${x.name} (${measureName(m.name)})`, m));
      }
    }
  }
  return `${out.join('\n')}\n`;
}

function measureLine(name: string, m: MirrorMeasure): string {
  const e = effectOf(m);
  return `| ${markdownCell(name)} | ${figureOf(m, m.reference)} | ${figureOf(m, m.candidate)} | ${e.size} | ${e.interval} | ${floorText(m) || '–'} | ${m.verdict} |`;
}
