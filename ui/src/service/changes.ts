// Change points of a service: what the server found, and how it is said and
// placed. Pure but for the two questions.

import { getAside, request } from '../shared/api/client';
import { momentName, readersTimes } from '../shared/text/time';
import { unbroken } from '../shared/verdict/effect';
import type { Change, ChangeDecided, ChangeEvent, ChangesResponse, Mark } from '../shared/api/schema';

export type ChangeStatus = Change['status'];

/** The longest range that the page has searched. */
export const longest = 7 * 86400;

/** known answers with what was found in the last minutes, if anything was. */
export const readChanges = ({ known, ...q }: { match: string; start: number; end: number; known?: boolean }, signal?: AbortSignal) =>
  getAside<ChangesResponse>('changes', { ...q, known: known ? 'true' : undefined }, signal);

/** The pause between two questions for what is not searched yet, in milliseconds. */
const untilMore = 1000;

/**
 * Asks for what is known, which is here at once, then for more until all is searched, and then in full if some of it was found earlier.
 * ask returns undefined if a newer question took its place. Where known is false it asks in full first.
 */
export async function askKnownFirst(ask: (known: boolean) => Promise<ChangesResponse | undefined>, known = true, pause = () => new Promise((go) => setTimeout(go, untilMore))): Promise<void> {
  let r = await ask(known);
  while (r?.unsearched?.length) {
    await pause();
    r = await ask(true);
  }
  if (known && r?.kept) await askKnownFirst(ask, false, pause);
}

export function decide(c: Change, status: ChangeStatus, name = ''): Promise<ChangeDecided> {
  const { id, time, low, high, service, environment, operation, family, part, of_few } = c;
  return request('POST', '/api/v1/changes', undefined, { id, time, low, high, service, environment, operation, family, part, of_few, status, ...(status === 'confirmed' ? { name: name.trim() || c.name, description: c.headline } : {}) });
}

/** Whether a change stands for itself: the one that leads it is not in the list, or is of another service and was dismissed. */
export const leads = (c: Change, all: Change[]): boolean =>
  !c.under || !all.some((x) => x.id === c.under && (x.status !== 'dismissed' || (x.service === c.service && (x.environment ?? '') === (c.environment ?? ''))));

/** What is drawn: new changes, each event by the one that leads it. A confirmed one is a mark, which is drawn. */
export const drawn = (all: Change[]): Change[] => all.filter((c) => c.status === 'new' && leads(c, all));

/** Each event by the change that leads it and those under it, in the order of the list. */
export function byEvent(all: Change[]): { lead: Change; under: Change[] }[] {
  const events = all.filter((c) => leads(c, all)).map((lead) => ({ lead, under: [] as Change[] }));
  for (const c of all) if (!leads(c, all)) events.find((e) => e.lead.id === c.under)?.under.push(c);
  return events;
}

/** The moment of a change and its interval, which is left out where it is all that was searched: it tells nothing then. */
export const bandOf = ({ time, low, high, before, after }: Pick<Change, 'time' | 'low' | 'high' | 'before' | 'after'>): { time: number; low: number; high: number } =>
  (low <= before.start && high >= after.end ? { time, low: time, high: time } : { time, low, high });

/** What an address keeps of a change: its id, and the moment by which it is found once it is dated anew. */
export const addressOf = (c: Pick<Change, 'id' | 'time'>): string => `${c.id}@${Math.round(c.time)}`;

/** How far from the moment of an address its change is looked for, in seconds. */
const farthest = 900;

/** The change that an address names: that of its id, else the one that leads nearest to its moment. */
export function ofAddress(all: Change[], address: string | undefined): Change | undefined {
  const [id, at] = (address ?? '').split('@');
  const same = all.find((c) => c.id === id);
  if (same || !at) return same;
  const away = (c: Change) => Math.abs(c.time - Number(at));
  return all.filter((c) => leads(c, all) && away(c) <= farthest).sort((a, b) => away(a) - away(b))[0];
}

/** The unit of a figure of a change, empty of a number. */
export const unitOf = (c: Pick<Change, 'family' | 'unit' | 'part'>, measure: string): string =>
  c.family ? (c.unit ?? '') : measure === 'calls_per_request' ? '' : 'seconds';

/** The event of a change that other services have a part in. */
export const eventOf = (r: ChangesResponse | undefined, c: Change): ChangeEvent | undefined =>
  r?.events.find((e) => e.services.length > 1 && e.low <= c.high && c.low <= e.high && e.services.some((s) => s.service === c.service && (s.environment ?? '') === (c.environment ?? '')));

/** Its sentence for the page. */
export const headlineOf = (c: Pick<Change, 'headline'>, zone?: string): string => unbroken(readersTimes(c.headline, zone));

/** When it was, in the reader's zone: "Fri 20 Nov 14:20:00 CET, between 14:19:50 and 14:20:10", and since when it is over. */
export function whenWords(c: Pick<Change, 'time' | 'low' | 'high' | 'ended'>, zone?: string): string {
  const at = momentName(c.time, zone);
  if (c.ended) return `${at}, normal again since ${momentName(c.ended, zone)}`;
  if (c.low >= c.high) return at;
  const [low, high] = [momentName(c.low, zone), momentName(c.high, zone)];
  const day = at.slice(0, at.indexOf(':') - 3);
  const clock = (s: string) => (s.startsWith(day) ? s.slice(day.length + 1) : s).replace(/ [^ ]+$/, '');
  return `${at}, between ${clock(low)} and ${clock(high)}`;
}

/** How far a mark is from a change: "2 min before", "at the same moment". */
export function apart(m: Mark, c: Pick<Change, 'time'>): string {
  const d = Math.round((m.time ?? c.time) - c.time);
  const a = Math.abs(d);
  if (a < 5) return 'at that moment';
  const words = a < 90 ? `${a} s` : a < 5400 ? `${Math.round(a / 60)} min` : `${Math.round(a / 3600)} h`;
  return `${words} ${d < 0 ? 'before' : 'after'}`;
}

/** The filters of a page by which changes are searched: those of its requests, whether they failed or not. */
export const searchedBy = (filters: Record<string, string[]>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(filters).filter(([name, values]) => values.length && name !== 'kind' && name !== 'status'));

/**
 * Where the two stretches around a change are compared, for the same requests: what the address of that page keeps.
 * Those of a change that a mark tells are the mark's, of which no other filter is known.
 */
export function comparison(c: Change, filters: Record<string, string[]> = {}): { filters: Record<string, string[]>; more: Record<string, string[]> } {
  const of = { ...searchedBy(filters), service: [c.service], ...(c.environment ? { environment: [c.environment] } : {}), ...(c.operation ? { operation: [c.operation] } : {}) };
  const whole = Object.keys(of).every((name) => name === 'service' || name === 'environment');
  return {
    filters: of,
    more: c.told_by && whole ? { by: ['mark'], mark: [c.told_by] } : { a: [`${c.before.start}/${c.before.end}`], b: [`${c.after.start}/${c.after.end}`] },
  };
}
