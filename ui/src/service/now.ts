// What is wrong, for the first page: changes that made requests worse, one line
// for each event. Pure.

import type { Change } from '../shared/api/schema';

export interface Moment {
  /** The change that its line is of. */
  lead: Change;
  /** The others of that moment. */
  more: Change[];
  /** It came back to what it was, by itself or by a later improvement. */
  over: boolean;
}

/** The longest range that is searched of all services together. */
export const longestOfAll = 6 * 3600;

const worse = (c: Change) => c.status !== 'dismissed' && (c.verdict === 'regression' || c.verdict === 'mixed');
const same = (a: Change, b: Change) => a.service === b.service && (a.environment ?? '') === (b.environment ?? '') && (a.operation ?? '') === (b.operation ?? '');

/**
 * The events that made something worse, each by the change that leads it: what lasts before what is over, then the latest first.
 * What requests call may change without anybody's waiting longer for it, and is none by itself.
 */
export function momentsOf(all: Change[]): Moment[] {
  const over = (c: Change) => c.shape?.kind === 'spike' || all.some((x) => x.verdict === 'improvement' && x.time > c.time && !x.part && !x.family && same(x, c));
  return all
    .filter((c) => worse(c) && !c.under && !c.part && !c.family)
    .map((lead) => ({ lead, more: all.filter((c) => c.under === lead.id), over: over(lead) }))
    .sort((a, b) => Number(a.over) - Number(b.over) || b.lead.time - a.lead.time);
}

/** Where the others of a moment are: "14 more in shop and shoppers"; empty without any. */
export function moreWords(m: Moment): string {
  if (!m.more.length) return '';
  const services = [...new Set(m.more.map((c) => c.service))];
  const names = services.length > 3 ? [...services.slice(0, 2), `${services.length - 2} others`] : services;
  return `${m.more.length} more in ${names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}` : names[0]}`;
}
