// What is wrong, for the first page: changes that made requests worse, one line
// for each event. Pure.

import type { Change, Incident, Mark, Service } from '../shared/api/schema';
import { sentenceOf } from '../shared/text/format';
import { ago, clockName, momentName, shortSlotName } from '../shared/text/time';
import { leads } from './changes';

export interface Moment {
  /** The change that its line is of. */
  lead: Change;
  /** The others of that moment. */
  more: Change[];
  /** When the figures were again what they were before, if they are. */
  end?: number;
}

/** The longest range that is searched of all services together. */
export const longestOfAll = 6 * 3600;

const worse = (c: Change) => c.status !== 'dismissed' && (c.verdict === 'regression' || c.verdict === 'mixed');

/**
 * The events that made something worse, each by the change that leads it: what lasts before what is over, then the latest first.
 * What requests call may change without anybody's waiting longer for it, and is none by itself.
 */
export function momentsOf(all: Change[]): Moment[] {
  return all
    .filter((c) => worse(c) && leads(c, all) && !c.part && !c.family)
    .map((lead) => ({ lead, more: all.filter((c) => c.under === lead.id), end: lead.shape?.kind === 'spike' ? lead.shape.end : lead.ended }))
    .sort((a, b) => Number(a.end != null) - Number(b.end != null) || b.lead.time - a.lead.time);
}

/** The title of the first page's account. */
export function titleOf(s: { wrong: number; looking: boolean; searched: boolean; requests: boolean; checks: number; unusual?: number; services?: readonly Pick<Service, 'name' | 'state'>[] }): string {
  if (s.wrong) return 'What is wrong';
  if (s.unusual) return s.unusual === 1 ? 'A service is not as usual' : `${s.unusual} services are not as usual`;
  if (!s.requests) return 'No requests in this range'; // nothing is known of a time without requests
  if (s.looking) return 'Looking for what changed…';
  if (s.searched && s.services?.length && s.services.every((x) => x.state === 'well')) return s.services.length === 1 ? `${s.services[0].name} is as usual` : `All ${s.services.length} services are as usual`;
  if (s.searched) return 'Nothing is wrong now';
  return s.checks ? 'No check fails' : 'What is wrong is not known';
}

/** What is said of stretches for which there was no time: ", of which 20 Nov 05:00–07:00 is not searched yet"; empty without any. */
export function notSearchedYet(stretches: readonly { start: number; end: number }[]): string {
  if (!stretches.length) return '';
  return `, of which ${stretches.map((s) => shortSlotName(s.start, s.end)).join(' and ')} ${stretches.length === 1 ? 'is' : 'are'} not searched yet`;
}

/** When a moment was: "since …, 5 min ago", and of one that is over from when until when. */
export const spanWords = ({ lead, end }: Moment, now: number): string =>
  end == null ? `since ${momentName(lead.time)}, ${ago(lead.time, now)}` : `from ${momentName(lead.time)} to ${clockName(end)}, normal again since`;

/** The nearest mark that may be the cause of a change: one that is surely after it is none. */
export const causeOf = (c: Pick<Change, 'near' | 'high'>): Mark | undefined => c.near.find((m) => m.time != null && m.time <= c.high);

/** Where the others of a moment are: "14 more in shop and shoppers"; empty without any. */
export function moreWords(m: Moment): string {
  if (!m.more.length) return '';
  const services = [...new Set(m.more.map((c) => c.service))];
  const names = services.length > 3 ? [...services.slice(0, 2), `${services.length - 2} others`] : services;
  return `${m.more.length} more in ${names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}` : names[0]}`;
}

/** What is wrong, in order: two moments that last, which say what, for whom and perhaps why, before the checks that fail of it; then the other moments. */
export function linesOf<C>(failing: readonly C[], moments: readonly Moment[]): (C | Moment)[] {
  const first = moments.filter((m) => m.end == null).slice(0, 2);
  return [...first, ...failing, ...moments.filter((m) => !first.includes(m))];
}

/** What is said of services that are not as usual now: the worst, for whom, and how many more. beside: others have lines of their own. */
export function unusualWords(of: readonly Pick<Service, 'name' | 'state' | 'why' | 'whom'>[], beside = false): string {
  const worst = of.find((s) => s.state === 'worse') ?? of[0];
  if (!worst) return '';
  return `${beside ? 'Also ' : ''}${worst.name}: ${sentenceOf(worst.why ?? '').replace(/\.$/, '')}${worst.whom ? `; ${worst.whom.sentence}` : ''}${of.length > 1 ? `, and ${of.length - 1} more` : ''}`;
}

/** Since when all is well: the end of the last incident or moment or the last minute that was seen to be unusual, else the whole of what was searched, from start on. */
export function wellSince(moments: readonly Moment[], incidents: readonly Pick<Incident, 'end'>[], start: number, unusual = 0): string {
  const last = Math.max(unusual, ...moments.map((m) => m.end ?? 0), ...incidents.map((i) => i.end ?? 0));
  return last > start ? `since ${momentName(last)}` : `well since before ${momentName(start)}`;
}
