// The SLA report: its question as an address, its figures as words, a table for
// spreadsheets and a command. The page draws them.

import type { SLAPeriod, SLAResponse } from '../shared/api/schema';
import { get } from '../shared/api/client';
import { apdex, percent, tick, value } from '../shared/text/format';
import { ratioWords } from '../shared/verdict/words';
import { shellQuote } from '../shared/page/match';
import type { Num } from '../shared/api/types';
import { spanName } from '../shared/text/time';
import { csvCell, serverFlag, utc } from '../shared/text/export';

export type Period = SLAResponse['period'];
export const periods: Period[] = ['day', 'week', 'month'];
export const defaultCounts: Record<Period, number> = { day: 7, week: 8, month: 6 };

/** What the reader asks for. objective and under go together; null is none. */
export interface SLAQuestion {
  period: Period;
  count: number;
  tz: string;
  objective: number | null;
  under: number | null;
  t: number | null;
}

const first = (more: Record<string, string[]>, key: string) => more[key]?.[0];

function positive(s: string | undefined): number | null {
  const n = Number(s);
  return s && Number.isFinite(n) && n > 0 ? n : null;
}

/** The question of an address; what cannot be understood is left at its default. */
export function questionOf(more: Record<string, string[]>, ownZone: string): SLAQuestion {
  const p = first(more, 'period') as Period;
  const period = periods.includes(p) ? p : 'week';
  const n = positive(first(more, 'count'));
  const o = positive(first(more, 'objective'));
  const under = positive(first(more, 'under'));
  const none = first(more, 'objective') === 'none';
  return {
    period,
    count: n && Number.isInteger(n) && n <= 60 ? n : defaultCounts[period],
    tz: first(more, 'tz') || ownZone,
    objective: none ? null : o && o < 1 ? o : 0.99,
    under: none ? null : (under ?? 0.5),
    t: positive(first(more, 't')),
  };
}

/** The reverse: only what differs from the default goes into the address. */
export function moreOf(q: SLAQuestion, ownZone: string): Record<string, string[]> {
  const out: Record<string, string[]> = {};
  if (q.period !== 'week') out.period = [q.period];
  if (q.count !== defaultCounts[q.period]) out.count = [String(q.count)];
  if (q.tz !== ownZone) out.tz = [q.tz];
  if (q.objective == null) out.objective = ['none'];
  else {
    if (q.objective !== 0.99) out.objective = [String(q.objective)];
    if (q.under !== 0.5) out.under = [String(q.under)];
  }
  if (q.t != null) out.t = [String(q.t)];
  return out;
}

export function readSLA(match: string, q: SLAQuestion, end: number | undefined, signal?: AbortSignal) {
  return get<SLAResponse>('sla', {
    match, period: q.period, count: q.count, tz: q.tz, end, objective: q.objective, under: q.objective == null ? null : q.under, t: q.t,
  }, signal);
}

/** "99 %", "99.95 %": as people write objectives, without rounding. */
export function shareWords(share: number): string {
  return `${Number((share * 100).toPrecision(10))} %`;
}

/** What a reader types for a share: 99, 99.9 %, 0.99. Undefined when it is none below one. */
export function parseShare(text: string): number | undefined {
  const m = /^\s*([0-9]+(?:[.,][0-9]+)?)\s*(%?)\s*$/.exec(text);
  if (!m) return undefined;
  const n = Number(m[1].replace(',', '.'));
  const share = m[2] || n >= 1 ? n / 100 : n;
  return share > 0 && share < 1 ? Number(share.toPrecision(10)) : undefined;
}

export interface Words {
  sign: string;
  word: string;
  why: string;
}

export function metWords(r: SLAPeriod, objective: Num | undefined): Words {
  const most = `${percent(r.good)} of the requests were good`;
  switch (r.met) {
    case 'yes': return { sign: '✓', word: 'met', why: most };
    case 'no': return { sign: '✕', word: 'missed', why: most };
    case 'unknown': return { sign: '?', word: 'open', why: `Between ${percent(r.good_low)} and ${percent(r.good_high)} were good: the bound lies inside a bucket, whose width decides` };
    default: return { sign: '–', word: objective == null ? 'no objective' : 'no data', why: objective == null ? 'No objective is set' : 'Nothing was measured' };
  }
}

/** Throughput and p95 against the period before: "12.0 % more", "2.7 times as slow", "as before". */
export const rateTrend = (r: SLAPeriod): string => (r.trend.rate == null ? '' : ratioWords(1, r.trend.rate, 'more', 'less'));
export const p95Trend = (r: SLAPeriod): string => (r.trend.p95 == null ? '' : ratioWords(1, r.trend.p95, 'slower', 'faster'));

/** A difference of Apdex: "+0.02". */
export function difference(d: Num | undefined): string {
  if (d == null || !Number.isFinite(d)) return '';
  if (Math.abs(d) < 0.0005) return '± 0';
  return `${d > 0 ? '+' : '−'}${Math.abs(d).toFixed(Math.abs(d) < 0.005 ? 3 : 2)}`;
}

const p95 = (r: SLAPeriod) => r.quantiles['0.95'];

/** The account's sign: throughput, Apdex and response time turned bad together. */
export function saturatedWords(r: SLAPeriod, period: Period): string {
  const apdex = r.trend.apdex != null ? `fell by ${Math.abs(r.trend.apdex).toFixed(2)}` : 'fell';
  return `${r.name}: throughput was ${rateTrend(r) || 'less'} than in the ${period} before while Apdex ${apdex} and p95 was ${p95Trend(r) || 'slower'}, ${value(p95(r))}. All three turning bad together mean that the service was saturated: it could not take more, rather than being asked for less.`;
}

/** What outages leave open of an objective: the requests that never came are counted neither way. */
export const withoutWords = (r: SLAPeriod): string => (r.without ? `${spanName(r.without)} without requests` : '');

/** The report in one sentence. */
export function verdict(d: SLAResponse): string {
  const rows = d.rows.filter((r) => r.requests > 0);
  if (!rows.length) return 'Nothing was measured in these periods.';
  if (d.objective == null || d.under == null) return `No objective is set. Apdex over all was ${d.all.apdex == null ? 'not known' : apdex(d.all.apdex)}.`;
  const judged = rows.filter((r) => r.met === 'yes' || r.met === 'no' || r.met === 'unknown');
  const met = judged.filter((r) => r.met === 'yes').length;
  const open = judged.filter((r) => r.met === 'unknown').length;
  const plural = (n: number) => `${n} ${d.period}${n === 1 ? '' : 's'}`;
  const how = judged.length === 0 ? 'could not be judged' : met === judged.length ? `was met in ${judged.length === 1 ? `the one ${d.period}` : `all ${plural(judged.length)}`}` : met === 0 && !open ? `was missed in ${judged.length === 1 ? `the one ${d.period}` : `all ${plural(judged.length)}`}` : `was met in ${met} of ${plural(judged.length)}`;
  return `The objective, ${shareWords(d.objective)} good within ${tick(d.under)}, ${how}${open ? `; ${open} ${open === 1 ? 'is' : 'are'} open` : ''}${d.all.without ? `; ${withoutWords(d.all)} counted neither way` : ''}.`;
}

const columns = [
  'period', 'start', 'end', 'partial', 'requests', 'rate_per_second', 'apdex', 'apdex_low', 'apdex_high', 'satisfied', 'tolerating', 'frustrated', 'mean_seconds', 'p50_seconds', 'p95_seconds',
  'p99_seconds', 'errors', 'error_ratio', 'worst_tenant', 'good', 'good_low', 'good_high', 'met', 'saturated', 'without_requests_seconds',
];

/** One line per period. Times are RFC 3339 in UTC, the period's name is of the report's zone. */
export function slaCsv(d: SLAResponse): string {
  const lines = d.rows.map((r) => [
    r.name, utc(r.start), utc(r.end), r.partial, r.requests, r.rate, r.apdex, r.apdex_low, r.apdex_high, r.satisfied, r.tolerating, r.frustrated, r.mean, r.quantiles['0.5'], p95(r),
    r.quantiles['0.99'], r.errors, r.error_ratio, r.worst?.name, r.good, r.good_low, r.good_high, r.met, r.trend.saturated, r.without ?? 0,
  ].map(csvCell).join(','));
  return `${[columns.join(','), ...lines].join('\n')}\n`;
}

/** The same report in a terminal. */
export function slaCommand(service: string, operation: string | undefined, q: SLAQuestion, end: number | undefined, server: string): string {
  const parts = ['tailscope', 'report', 'sla', '--service', shellQuote(service)];
  if (operation) parts.push('--operation', shellQuote(operation));
  parts.push('--period', q.period, '--count', String(q.count), '--tz', shellQuote(q.tz));
  if (q.objective != null) parts.push('--objective', String(q.objective), '--under', String(q.under));
  if (q.t != null) parts.push('--t', String(q.t));
  if (end !== undefined) parts.push('--end', utc(end));
  parts.push(...serverFlag(server));
  return parts.join(' ');
}

/** Zones by name; the reader's own when the browser knows no list. */
export function zones(own: string): string[] {
  try {
    const all = Intl.supportedValuesOf('timeZone');
    return all.includes('UTC') ? all : ['UTC', ...all];
  } catch {
    return ['UTC', own];
  }
}

/** The zone as this browser spells it; undefined when it is none. */
export function zoneOf(text: string): string | undefined {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text.trim() }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
