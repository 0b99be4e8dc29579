// What is compared, as the address has it: two windows, what lies before and
// after a mark, two values of a label, a window and the same hours of earlier
// days, or several nights a side. Pure, so that the round trip, and what is asked of the server, are tested.

import type { Params } from '../shared/api/client';
import { parseSpan, resolve, spanCode, type TimeRange, windowText } from '../shared/text/time';
import type { Num } from '../shared/api/types';
import type { Mark, Range } from '../shared/api/schema';

export type By = 'windows' | 'mark' | 'label' | 'days' | 'nights';
export const ways: readonly (readonly [By, string, string])[] = [
  ['windows', 'Two windows', 'Two stretches of time'], ['mark', 'A mark', 'Before and after a named moment'],
  ['label', 'Two values', 'Two versions, variants, instances or tenants'], ['days', 'Earlier days', 'The same hours of days like it'],
  ['nights', 'Several nights', 'Windows that repeat, against others: what differs from night to night is the noise'],
];
export type Like = 'day' | 'weekday' | 'workday';

export interface Sides {
  by: By;
  /** Windows as start/end, Unix seconds or now-1h; windows that repeat; or values of the label. */
  a: string;
  b: string;
  mark: string;
  settle: string;
  window: string;
  label: string;
  days: number;
  like: Like;
  tz: string;
  family: string;
  per: string;
  within: string;
  level: string;
  /** What is allowed: worse:3%, p99=increase:3%,errors=0.1%. */
  allow: string;
}

export const defaultDays = 4;

/** The nights to begin with. */
export const firstNights = { a: 'daily 22:00-06:00 last 5 before now-7d', b: 'daily 22:00-06:00 last 5' };

type More = Record<string, string[]>;

export function sidesOf(more: More): Sides {
  const one = (k: string) => more[k]?.[0] ?? '';
  const days = Number(one('days'));
  return {
    by: ways.find(([w]) => w === one('by'))?.[0] ?? (one('mark') && !one('a') && !one('b') ? 'mark' : 'windows'),
    a: one('a'), b: one('b'), mark: one('mark'), settle: one('settle'), window: one('window'), label: one('label'),
    days: Number.isInteger(days) && days > 0 ? days : defaultDays,
    like: (['day', 'weekday', 'workday'] as const).find((l) => l === one('like')) ?? 'weekday',
    tz: one('tz'), family: one('family'), per: one('per'), within: one('within'), level: one('level'), allow: (more.allow ?? []).join(','),
  };
}

// What each way of choosing the sides keeps in the address.
const kept: Record<By, (keyof Sides)[]> = { windows: ['a', 'b'], mark: ['mark', 'settle', 'window'], label: ['label', 'a', 'b'], days: ['b', 'days', 'like', 'tz'], nights: ['a', 'b', 'tz'] };

/** The address of these sides; shown is what the page keeps beside them. */
export function moreOfSides(s: Sides, shown: More = {}): More {
  const out: More = {};
  for (const k of ['watch', 'tail']) if (shown[k]?.length) out[k] = shown[k];
  if (s.by !== 'windows') out.by = [s.by];
  for (const k of [...kept[s.by], 'family', 'per', 'within', 'level', 'allow'] as (keyof Sides)[]) {
    const v = String(s[k]);
    if (v && !(k === 'days' && s.days === defaultDays) && !(k === 'like' && s.like === 'weekday')) out[k] = [v];
  }
  return out;
}

const moment = (text: string, now: number): number | undefined => {
  const m = /^now(?:-(\d+[a-z]+))?$/.exec(text.trim());
  if (m) {
    const back = m[1] ? parseSpan(m[1]) : 0;
    return back === undefined ? undefined : now - back;
  }
  return /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined;
};

/** A window as the address has it, on whole slots; undefined if it is none. */
export function windowOf(text: string, now: number): Range | undefined {
  const [start, end] = text.split('/').map((x) => moment(x, Math.floor(now / 10) * 10));
  return start !== undefined && end !== undefined && end > start ? { start, end } : undefined;
}

/** The windows to begin with: this hour and the one before; of a range that was chosen, it and what was before it. */
export function firstWindows(range: TimeRange, usual: TimeRange): { a: string; b: string } {
  if (!('last' in range)) {
    const long = range.end - range.start;
    return { a: windowText({ start: range.start - long, end: range.start }), b: windowText(range) };
  }
  const long = 'last' in usual && usual.last === range.last ? 3600 : range.last;
  return { a: `now-${spanCode(2 * long)}/now-${spanCode(long)}`, b: `now-${spanCode(long)}/now` };
}

/** How old a mark may be that a comparison begins with. */
const newest = 7 * 86400;

/** What a side needs to be judged, 20 slots of ten seconds, and the time until they are stored. */
const soonest = 300;

/** The mark to begin with: the latest that has a time after it to be judged by. */
export const firstMark = (marks: Mark[], now: number): Mark | undefined =>
  marks.filter((m) => m.id && m.time != null && m.time > now - newest && m.time <= now - soonest).sort((a, b) => (b.time ?? 0) - (a.time ?? 0))[0];

/** The two halves of the time that has requests, on whole slots; undefined where it is too short. */
export function halvesOf(counts: Num[], times: number[], step: number, now: number): { a: string; b: string } | undefined {
  const first = counts.findIndex((n) => (n ?? 0) > 0);
  const end = counts.findLastIndex((n) => (n ?? 0) > 0);
  if (first < 0 || end - first < 3) return undefined;
  const from = times[first];
  const to = Math.min(times[end] + step, Math.floor(now / 10) * 10);
  const mid = Math.round((from + to) / 20) * 10;
  return { a: windowText({ start: from, end: mid }), b: windowText({ start: mid, end: to }) };
}

export interface Quick {
  name: string;
  title: string;
  a: string;
  b: string;
}

/** Windows that people mean. Midnights are those of the clock that date tells. */
export function quickWindows(now: number, midnight: (now: number, daysBack: number) => number = localMidnight): Quick[] {
  const day = (back: number) => windowText({ start: midnight(now, back), end: midnight(now, back - 1) });
  return [
    { name: 'This hour, the last', title: 'The last 60 minutes against the 60 before them', ...firstWindows({ last: 3600 }, { last: 0 }) },
    { name: 'Today, yesterday', title: 'Today so far against the same hours of yesterday: a daily season cancels', a: day(1), b: day(0) },
    { name: 'Today, a week ago', title: 'Today so far against the same hours of the same day last week', a: day(7), b: day(0) },
  ];
}

function localMidnight(now: number, daysBack: number): number {
  const d = new Date(now * 1000);
  return Math.floor(new Date(d.getFullYear(), d.getMonth(), d.getDate() - daysBack).getTime() / 1000);
}

/** What is wrong with the sides before the server is asked; field is the parameter. */
export interface Unready {
  field: string;
  message: string;
}

export type Asked = { params: Params } | { unready: Unready };

/** What to ask of /api/v1/compare. Relative times are made absolute, so that the question means the same tomorrow. */
export function questionOf(s: Sides, match: string, range: TimeRange, now: number): Asked {
  const params: Params = { family: s.family, per: s.per, match, level: s.level, within: s.within, ...(s.allow ? { allow: s.allow } : {}) };
  const unready = (field: string, message: string) => ({ unready: { field, message } });
  switch (s.by) {
    case 'mark':
      if (!s.mark) return unready('mark', 'Choose a mark.');
      return { params: { ...params, mark: s.mark, settle: s.settle, window: s.window } };
    case 'label': {
      if (!s.label) return unready('label', 'Choose a label, such as version.');
      if (s.a === s.b) return unready(s.a ? 'b' : 'a', `Choose two values of ${s.label}.`);
      return { params: { ...params, ...resolve(range, now), label: s.label, a: s.a, b: s.b } };
    }
    case 'nights': {
      const wanting = (['a', 'b'] as const).find((side) => !s[side].trim());
      if (wanting) return unready(wanting, `Write which nights make side ${wanting.toUpperCase()}, such as ${firstNights[wanting]}.`);
      return { params: { ...params, a: s.a.trim(), b: s.b.trim(), tz: s.tz } };
    }
  }
  const b = windowOf(s.b, now);
  if (!b) return unready('b', 'Choose when side B was.');
  if (s.by === 'days') return { params: { ...params, b: windowText(b), days: s.days, like: s.like, tz: s.tz } };
  const a = windowOf(s.a, now);
  if (!a) return unready('a', 'Choose when side A was.');
  if (a.start < b.end && b.start < a.end) return unready('b', 'The windows overlap. Choose two that do not.');
  return { params: { ...params, a: windowText(a), b: windowText(b) } };
}

/** The sides the other way round; those of a mark and of days become the windows that were used. Undefined where there is no such thing. */
export function swapped(s: Sides, used: { a: Range; b: Range } | undefined): Sides | undefined {
  if (s.by === 'windows' || s.by === 'label' || s.by === 'nights') return { ...s, a: s.b, b: s.a };
  if (s.by === 'mark' && used) return { ...s, by: 'windows', a: windowText(used.b), b: windowText(used.a) };
  return undefined;
}

/** Whether asking again later gives another answer. */
export function watchable(s: Sides, range: TimeRange, now: number, mark: number | undefined): boolean {
  switch (s.by) {
    case 'mark': return mark !== undefined && now < mark + (parseSpan(s.window) ?? 3600) + 120;
    case 'label': return 'last' in range || range.end > now;
    case 'nights': return false;
  }
  return s.b.endsWith('now') || (windowOf(s.b, now)?.end ?? 0) > now - 30;
}

/** Labels that tell sides apart, those people ask for first. */
export function sideLabels(names: string[]): string[] {
  const first = ['version', 'variant', 'instance', 'tenant'];
  const never = ['service', 'kind', 'status'];
  return [...first.filter((n) => names.includes(n)), ...names.filter((n) => !first.includes(n) && !never.includes(n)).sort()];
}

/** The two most frequent values, in the order people count versions. */
export function firstValues(values: { value: string; count: number }[]): { a: string; b: string } | undefined {
  const two = values.filter((v) => v.value && v.value !== '_other').slice(0, 2).map((v) => v.value).sort((x, y) => x.localeCompare(y, 'en', { numeric: true }));
  return two.length === 2 ? { a: two[0], b: two[1] } : undefined;
}
