// Checks as the page says them: values with their units, what they must be, how
// long, which part of an expression a step is, and a threshold that is being
// edited, as the address, the API and a file have it. Pure.

import type { BacktestSummary, Check, CheckBacktest, CheckBacktestResponse, CheckBands, CheckPoint, CheckReceiver, CheckResponse, CheckState, Incident } from '../shared/api/schema';
import { count, digits, errorRatio, missing, percentTick, tick, unitOf, value } from '../shared/text/format';
import { selection, shellQuote } from '../shared/page/match';
import type { Num } from '../shared/api/types';
import { draftKeys } from '../shared/page/url';
import { serverFlag } from '../shared/text/export';

/** A value with the unit that its check gives it: 412 ms, 12 %, 3 orders, 5.15/s, and of a ratio per cent. The program's figure.Quantity does the same. */
export function amount(v: Num | undefined, unit = ''): string {
  if (v == null) return missing;
  const of = unitOf(unit);
  if (of) return of === 'ratio' ? errorRatio(v) : value(v, of);
  if (v < 0) return `−${amount(-v, unit)}`;
  return `${Number.isInteger(v) && v < 1e9 ? count(v) : digits(v)}${unit && !unit.startsWith('/') ? ' ' : ''}${unit}`;
}

export const amountTick = (v: number, unit = ''): string => (unitOf(unit) === 'ratio' ? percentTick(v) : tick(v, unitOf(unit)));

export interface Limit {
  level: 'warning' | 'critical';
  sign: '<' | '>';
  at: number;
}

/** What of the bands is set: from where on a value is bad, the nearer first. */
export function limits(b: CheckBands | undefined): Limit[] {
  const all: [Limit['level'], Limit['sign'], Num | undefined][] = [
    ['warning', '>', b?.high_warning], ['critical', '>', b?.high_critical], ['warning', '<', b?.low_warning], ['critical', '<', b?.low_critical],
  ];
  return all.flatMap(([level, sign, at]) => (at == null ? [] : [{ level, sign, at }]));
}

/** What a healthy value does, which a bound is part of: "≤ 210 ms"; empty without a threshold. */
export function must(b: CheckBands | undefined, unit: string): string {
  if (b?.threshold == null) return '';
  const high = b.high_warning != null || b.high_critical != null;
  const low = b.low_warning != null || b.low_critical != null;
  return `${high && low ? '≈ ' : low ? '≥ ' : high ? '≤ ' : ''}${amount(b.threshold, unit)}`;
}

/** "warning > 231 ms, critical > 252 ms", or "warning outside 4 to 6"; it breaks at the comma only. */
export function limitText(b: CheckBands | undefined, unit: string): string {
  const all = limits(b);
  const text = (level: Limit['level']) => {
    const [high, low] = (['>', '<'] as const).map((s) => all.find((l) => l.level === level && l.sign === s));
    const one = high ?? low;
    return one && `${level} ${high && low ? `outside ${amount(low.at, unit)} to ${amount(high.at, unit)}` : `${one.sign} ${amount(one.at, unit)}`}`.replaceAll(' ', '\u00a0');
  };
  return [text('warning'), text('critical')].filter(Boolean).join(', ');
}

/** How long, to the second and in one unit: 42 s, 4.2 min, 100 min, 3.2 h, 4.1 d. The program's figure.Span does the same. */
export function lasting(seconds: Num | undefined): string {
  if (seconds == null) return missing;
  const s = Math.round(Math.max(0, seconds));
  if (s <= 120) return `${s} s`;
  const [size, unit] = s < 119.95 * 60 ? [60, 'min'] : s < 47.95 * 3600 ? [3600, 'h'] : [86_400, 'd'];
  return `${Number((s / size).toFixed(1))} ${unit}`;
}

/** What a run saw; empty if that is its value only, which stands beside it. */
export function seen(c: Pick<Check, 'text' | 'value' | 'level' | 'unit'>): string {
  if (c.level !== 'OK' || c.value == null) return c.text;
  const [, rest] = /^(?:[<>] )?[-−]?\d[\d.,]*(?:e[+-]?\d+)?(?: [GT](?=[ /]|$))? ?(.*)$/.exec(c.text) ?? [];
  const units: Record<string, RegExp> = { seconds: /^([nmµ]?s|min|h|d)$/, bytes: /^[kMGT]?B$/, ratio: /^%$/ };
  return rest === '' || rest === c.unit || (rest != null && units[unitOf(c.unit)]?.test(rest)) ? '' : c.text;
}

/** The step of a chart of so many columns: whole slots of what is kept, so that no step holds one slot more than the next. */
export function stepOf(range: { start: number; end: number }, columns: number): number {
  const least = (range.end - range.start) / columns;
  const slot = least > 600 ? 600 : least > 60 ? 60 : 10;
  return Math.max(slot, Math.ceil(least / slot) * slot);
}

/** What of a check its state alone does not say. */
export function notes(c: Pick<Check, 'state' | 'level' | 'soft' | 'flapping' | 'quiet'>): string[] {
  return [
    ...(c.soft ? [`soft: now ${c.level}, not for long enough`] : []),
    ...(c.flapping ? ['flapping: no notification of its changes until it is steady'] : []),
    ...(c.quiet && c.quiet !== 'flapping' ? [`no notifications: ${c.quiet}`] : []),
  ];
}

/** Receivers that do not work, or lost something, each in one sentence. */
export function troubles(receivers: CheckReceiver[] | undefined, now: number): string[] {
  const out: string[] = [];
  for (const r of receivers ?? []) {
    const dropped = Object.entries(r.dropped).filter(([, n]) => n > 0);
    if (r.state !== 'waiting' && !dropped.length) continue;
    const said: string[] = [];
    if (r.state === 'waiting') {
      said.push(`does not work: ${r.error || 'no answer'}`);
      if (r.spooled) said.push(`${count(r.spooled)} wait on disk`);
      if (r.next != null) said.push(r.next > now ? `tried again in ${lasting(r.next - now)}` : 'being tried again');
    }
    for (const [why, n] of dropped) said.push(`${count(n)} dropped (${dropWords[why] ?? why})`);
    out.push(`${r.name} (${r.kind}, ${r.to}) ${said.join('; ')}.`);
  }
  return out;
}

const dropWords: Record<string, string> = { full: 'the spool was full', age: 'too old', refused: 'refused for good' };

/** What held at a moment; undefined if nothing is known of it. */
export const stateAt = (of: CheckState[] | undefined, t: number): CheckState | undefined => (of ?? []).find((s) => (s.start ?? 0) <= t && t < (s.end ?? Infinity));

/** Points on the steps of a range, one each, so that a cursor finds them by arithmetic; undefined where there is none. */
export function onSteps(points: CheckPoint[] | undefined, start: number, end: number, step: number): { times: number[]; at: (CheckPoint | undefined)[] } {
  const first = Math.floor(start / step) * step;
  const n = Math.max(1, Math.min(20_000, Math.ceil((end - first) / step)));
  const at = new Array<CheckPoint | undefined>(n).fill(undefined);
  for (const p of points ?? []) {
    const i = Math.floor(((p.time ?? -1) - first) / step + 1e-6);
    if (i >= 0 && i < n) at[i] = p;
  }
  return { times: at.map((_, i) => first + i * step), at };
}

/**
 * The value axis: all values, and the bands as far as they are not so far from
 * them that the values would lie on the floor; from zero if that is near.
 */
export function axisOf(points: (CheckPoint | undefined)[]): [number, number] {
  let [lo, hi] = [Infinity, -Infinity];
  const see = (v: Num | undefined) => {
    if (v != null) [lo, hi] = [Math.min(lo, v), Math.max(hi, v)];
  };
  for (const p of points) if (p) [p.value, p.min, p.max].forEach(see);
  const [least, most] = [lo, hi];
  const reach = 4 * Math.max(Math.abs(most), Math.abs(least)) || Infinity;
  for (const p of points) for (const v of p ? [p.bands.threshold, ...limits(p.bands).map((l) => l.at)] : []) if (v != null && !(v > most + reach) && !(v < least - reach)) see(v);
  if (lo > hi) return [0, 1];
  const room = Math.max((hi - lo) * 0.08, Math.abs(hi) * 0.02) || 0.5;
  const from = lo >= 0 && lo < hi * 0.5 ? 0 : lo - room;
  return [from, hi + room];
}

const encoder = new TextEncoder();

/** A source before, in and after a part that begins so many bytes from its beginning. */
export function partOf(source: string, offset: number, text: string): [string, string, string] {
  let [at, bytes] = [0, 0];
  while (bytes < offset && at < source.length) {
    const c = String.fromCodePoint(source.codePointAt(at)!);
    bytes += encoder.encode(c).length;
    at += c.length;
  }
  return [source.slice(0, at), source.slice(at, at + text.length), source.slice(at + text.length)];
}

/** Where in a source a message says that the mistake is: its character, or undefined. Columns count characters, from 1. */
export function placeOf(source: string, message: string): number | undefined {
  const m = /(?:line (\d+), )?column (\d+)/.exec(message);
  if (!m) return undefined;
  const lines = source.split('\n');
  const line = Math.min(lines.length, Number(m[1] ?? 1)) - 1;
  const before = lines.slice(0, line).reduce((n, l) => n + l.length + 1, 0);
  return Math.min(source.length, before + [...lines[line]].slice(0, Number(m[2]) - 1).join('').length);
}

/** What of a check can be edited here, all as text, as files have it. */
export interface Draft {
  expr: string; // of the value; empty if it comes from elsewhere
  must: string;
  of: string;
  warn: string;
  crit: string;
  bad: string;
  good: string;
}

/** The flags of tailscope check backtest for the same. */
export const draftFlags: Record<keyof Draft, string> = { expr: 'value', must: 'must', of: 'of', warn: 'warning', crit: 'critical', bad: 'soft', good: 'recover' };

/** A check as it is. */
export function draftOf(r: Pick<CheckResponse, 'expression' | 'threshold' | 'rules'>): Draft {
  const t = r.threshold;
  return { expr: r.expression ?? '', must: t?.must ?? '<', of: t?.of ?? '', warn: t?.warning ?? '', crit: t?.critical ?? '', bad: r.rules?.bad ?? '', good: r.rules?.good ?? '' };
}

/** The address's changes on top of what is. */
export function edited(is: Draft, more: Record<string, string[]>): Draft {
  return Object.fromEntries(draftKeys.map((k) => [k, more[k]?.[0] ?? is[k]])) as unknown as Draft;
}

export const changedKeys = (is: Draft, d: Draft): (keyof Draft)[] => draftKeys.filter((k) => is[k].trim() !== d[k].trim());

/** The question: only what differs from the check, so that the server compares it with the check as it is. */
export function backtestOf(id: string, is: Draft, d: Draft, range: { start: number; end: number }): CheckBacktest {
  const c = new Set(changedKeys(is, d));
  const out: CheckBacktest = { check: id, ...range };
  if (c.has('expr')) out.value = d.expr.trim();
  if ((c.has('must') || c.has('of') || c.has('warn') || c.has('crit')) && d.of.trim()) {
    out.threshold = { must: d.must, of: d.of.trim(), ...(d.warn.trim() ? { warning: d.warn.trim() } : {}), ...(d.crit.trim() ? { critical: d.crit.trim() } : {}) };
  }
  if (c.has('bad') || c.has('good')) out.states = { bad: d.bad.trim(), good: d.good.trim() };
  return out;
}

/** Whether what is held against is an expression, and no number and no profile. */
export const isExpression = (of: string): boolean => of.trim() !== '' && !/^\s*profile\s/.test(of) && !Number.isFinite(Number(of));

/** A scalar of YAML, in quotes where it needs them. */
export function yamlText(s: string): string {
  if (/^-?\d+(\.\d+)?%?$|^\d+ of \d+$/.test(s) || (/^[A-Za-z][\w .()/%-]*$/.test(s) && !/\s$|^(true|false|null|yes|no|on|off)$/i.test(s))) return s;
  return s.includes("'") && !s.includes('"') && !s.includes('\\') ? `"${s}"` : `'${s.replaceAll("'", "''")}'`;
}

/** The keys of a definition that a draft sets, as they stand in a file, to be pasted over those there. */
export function draftYaml(name: string, is: Draft, d: Draft): string {
  const put = (key: string, v: string) => (v.trim() ? [`${key}: ${/^[<>=]$/.test(v) ? `"${v}"` : yamlText(v.trim().replace(/\s*\n\s*/g, ' '))}`] : []);
  const lines = ['checks:', `  ${yamlText(name)}:`];
  if (d.expr.trim() && d.expr.trim() !== is.expr.trim()) lines.push(...put('    value', d.expr));
  if (d.of.trim()) lines.push('    threshold:', ...put('      must', d.must), ...put('      of', d.of), ...put('      warning', d.warn), ...put('      critical', d.crit));
  lines.push(...put('    soft', d.bad), ...put('    recover', d.good));
  return `${lines.join('\n')}\n`;
}

export interface FigureRow {
  name: string;
  is: string;
  was?: string;
}

/** A backtest's figures, beside those of the check as it is. Without marked incidents nothing is known of right and wrong alarms. */
export function figures(r: CheckBacktestResponse): FigureRow[] {
  const b = r.before;
  const marked = r.incidents.length > 0;
  const row = (name: string, of: (f: Omit<BacktestSummary, 'opened' | 'bands'>) => string): FigureRow => ({ name, is: of({ ...r, alarms: r.alarms.length }), was: b && of(b) });
  return [
    row('Alarms', (f) => count(f.alarms)),
    row('Alarms per week', (f) => digits(f.per_week)),
    ...(marked ? [row('Marked incidents found', (f) => count(f.found)), row('Marked incidents missed', (f) => count(f.missed)), row('False alarms', (f) => count(f.false))] : []),
    row('Time not OK', (f) => lasting(f.bad_seconds)),
  ];
}

/** How soon an alarm came: "3 min after it began". */
export const foundText = (i: { found: boolean; after: Num }): string => (!i.found ? 'missed' : i.after == null ? 'found' : i.after < 0 ? `found ${lasting(-i.after)} before it began` : `found after ${lasting(i.after)}`);

/** The incidents of a kind, the newest first. */
export const ofKind = (all: Incident[] | null | undefined, kind: string): Incident[] => (all ?? []).filter((i) => i.kind === kind);

/** Marked incidents that concern a check: of it, of its service, or of all. */
export const concerning = (all: Incident[] | undefined, c: Pick<Check, 'id' | 'name' | 'labels'>): Incident[] =>
  ofKind(all, 'marked').filter((i) => (i.check ? i.check === c.id || i.check === c.name : !i.service || !c.labels.service || i.service === c.labels.service));

/** The command that shows the same, with the server if it is not the usual one. */
export function checkCommand(words: string[], server: string): string {
  return ['tailscope', 'check', ...words.map(shellQuote), ...serverFlag(server)].join(' ');
}

/** The series of a check's values. */
export const checkPromql = (c: Pick<Check, 'name' | 'labels'>, family = 'check_value'): string => family + selection(labelsOf(c));

/** The labels of a check's series, as filters. */
export const labelsOf = (c: Pick<Check, 'name' | 'labels'>): Record<string, string[]> =>
  ({ check: [c.name], ...Object.fromEntries(Object.entries(c.labels).filter(([k]) => k !== 'check').map(([k, v]) => [k, [v]])) });

/** Values and bands over time, a line each. */
export function checkCsv(points: CheckPoint[] | undefined): string {
  const cell = (v: Num) => (v == null ? '' : String(v));
  const rows = (points ?? []).map((p) => [new Date((p.time ?? 0) * 1000).toISOString(), p.value, p.min, p.max, p.bands.threshold, p.bands.low_critical, p.bands.low_warning, p.bands.high_warning, p.bands.high_critical].map((v) => (typeof v === 'string' ? v : cell(v))).join(','));
  return `time,value,min,max,threshold,low_critical,low_warning,high_warning,high_critical\n${rows.map((r) => `${r}\n`).join('')}`;
}

/** A first file of checks, and what to do with it. */
export const firstCheck = {
  file: `checks:
  shop p99:
    description: p99 against the last hour
    every: 10s
    unit: s
    value: p99(span_duration_seconds{service="shop", kind="server"}[-5M:-0M])
    threshold:
      must: "<"
      of: avgmad({check="shop p99"}[-65M:-5M])
      warning: 50%
      critical: 100%
    soft: 3 of 5
`,
  command: 'tailscope check validate checks.yaml && tailscope serve --checks checks.yaml',
};
