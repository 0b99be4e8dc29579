// Who became slow, or is slow, in a rectangle of the heatmap: the question, the answer,
// and how the answer reads.

import type { ExplainBefore, ExplainItem, ExplainResponse } from '../shared/api/schema';
import { get, type Params } from '../shared/api/client';
import type { Box } from '../shared/chart/box';
import type { Filters } from '../shared/page/match';
import { shellQuote } from '../shared/page/match';
import type { Num } from '../shared/api/types';
import { csvCell, serverFlag } from '../shared/text/export';
import { count, percent } from '../shared/text/format';

export interface Question {
  family: string;
  match: string;
  start: number;
  end: number;
  box: Box;
  against: Against;
}

/** What a rectangle is compared with: the time before, the day before, or the rest of the range. */
export type Against = ExplainResponse['against'];

/** The choices, with what each asks. */
export const questions: readonly (readonly [Against, string, string])[] = [
  ['before', 'became slow', 'Compared with the same labels before the mark that is near, or in the time before the rectangle'],
  ['day', 'slower than a day ago', 'Compared with the same labels at the same time of the day before'],
  ['rest', 'is slow', 'Compared with all other requests of the range'],
];

export const decodeAgainst = (text: string | undefined): Against => questions.find(([v]) => v === text)?.[0] ?? 'before';

/** The parameters of a question; what reaches out of the range is cut to it. */
export function explainParams(q: Question): Params {
  return {
    family: q.family, match: q.match, start: q.start, end: q.end, from: Math.max(q.box.start, q.start), to: Math.min(q.box.end, q.end),
    low: q.box.low > 0 ? q.box.low : undefined, high: q.box.high,
    against: q.against === 'before' ? undefined : q.against,
  };
}

export const readExplain = (q: Question, signal?: AbortSignal) => get<ExplainResponse>('explain', explainParams(q), signal);

/** The same question for a terminal. */
export function explainCommand(q: Question, allKinds: boolean, spanFamily: string, server: string): string {
  const p = explainParams(q);
  const parts = ['tailscope', 'query', 'explain'];
  if (q.match) parts.push('--match', shellQuote(q.match));
  if (allKinds) parts.push('--kind', 'all');
  if (q.family !== spanFamily) parts.push('--family', shellQuote(q.family));
  parts.push('--start', String(q.start), '--end', String(q.end), '--from', String(p.from), '--to', String(p.to));
  if (p.low != null) parts.push('--low', String(p.low));
  if (p.high != null) parts.push('--high', String(p.high));
  if (p.against) parts.push('--against', String(p.against));
  parts.push(...serverFlag(server));
  return parts.join(' ');
}

const named = ([name, value]: [string, string]) => (value === '' ? `no ${name}` : `${name} ${value}`);

/** tenant acme; operation GET /search with tenant acme. */
export const title = (labels: Record<string, string>) => Object.entries(labels).sort().map(named).join(' with ');

/** What accounts for a label, in words: only with operation GET /search. */
export function throughWords(i: ExplainItem): string {
  const rest = Object.entries(i.through ?? {}).filter(([name]) => !(name in i.labels));
  return rest.length ? `only with ${rest.sort().map(named).join(' and ')}` : '';
}

/** A share in percentage points, two digits at least: 58, 4.1, 0.04. */
export function points(share: Num): string {
  if (share == null || !Number.isFinite(share)) return '–';
  const x = 100 * share;
  const a = Math.abs(x);
  const s = a >= 9.95 || a === 0 ? a.toFixed(0) : a >= 0.095 ? a.toFixed(1) : String(Number(a.toPrecision(1)));
  return x < 0 ? `−${s}` : s;
}

/** What an item accounts for of the increase; others decrease where it is more than all. */
export const partWords = (part: number) => (part > 1.1 ? 'more than all' : percent(Math.min(1, part)));

/** The name of an item: its labels; none are all requests that no item above names. */
export const itemTitle = (i: ExplainItem, at: number, what: string) => title(i.labels) || (at > 0 ? `all other ${what}` : `all ${what}`);

/** The answer's sentence in two parts: what it names, and the rest. */
export function headline(r: ExplainResponse, what: string): [string, string] {
  const name = r.items.length ? itemTitle(r.items[0], 0, what) : '';
  return name && r.sentence.startsWith(name) ? [name, r.sentence.slice(name.length)] : ['', r.sentence];
}

/** What the rectangle is compared with: 402 of 40 000 from 12:00 to 12:20, before the mark deploy 1.4. */
export const beforeWords = (b: ExplainBefore, when: string) =>
  `${count(b.inside)} of ${count(b.count)} were inside ${when}${b.mark ? `, before the mark ${b.name || b.mark}` : ''}`;

export interface Row {
  item: ExplainItem;
  title: string;
  /** A pair below one of its labels. */
  nested: boolean;
}

/** Pairs move below the first of their labels that is listed before them; the order stays otherwise. Against the time before each is without those above it. */
export function arrange(items: ExplainItem[], against: Against = 'rest', what = 'requests'): Row[] {
  if (against !== 'rest') return items.map((item, at) => ({ item, title: itemTitle(item, at, what), nested: false }));
  const out: Row[] = [];
  const parts = (i: ExplainItem) => Object.entries(i.labels);
  for (const item of items) {
    const row = { item, title: title(item.labels), nested: false };
    const under = parts(item).length < 2 ? -1 : out.findIndex((r) => parts(r.item).length === 1 && parts(r.item).every(([n, v]) => item.labels[n] === v));
    if (under < 0) {
      out.push(row);
      continue;
    }
    let at = under + 1;
    while (at < out.length && out[at].nested) at++;
    out.splice(at, 0, { ...row, nested: true });
  }
  return out;
}

/** The filters that narrow the page to these labels. */
export const narrowed = (filters: Filters, labels: Record<string, string>): Filters =>
  ({ ...filters, ...Object.fromEntries(Object.entries(labels).map(([n, v]) => [n, [v]])) });

/** One line per item, the most telling first. */
export function explainCsv(items: ExplainItem[]): string {
  const lines = items.map((i, at) => [itemTitle(i, at, 'requests'), i.inside, i.outside, i.inside_share, i.outside_share, i.effect, i.effect_low, i.effect_high, i.lift ?? '', i.adjusted_p, throughWords(i), i.part ?? ''].map(csvCell).join(','));
  return `${['labels,inside,outside,inside_share,outside_share,effect,effect_low,effect_high,lift,adjusted_p,through,part', ...lines].join('\n')}\n`;
}
