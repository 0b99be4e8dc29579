// What is wrong, for the first page: changes that made requests worse, one line
// for each moment. Pure.

import type { Change, ChangeEvent } from '../shared/api/schema';

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

/** Changes that are so near in time are of one moment. */
const near = 60;

const worse = (c: Change) => c.status !== 'dismissed' && (c.verdict === 'regression' || c.verdict === 'mixed');
const same = (a: Change, b: Change) => a.service === b.service && (a.environment ?? '') === (b.environment ?? '') && (a.operation ?? '') === (b.operation ?? '');

// A service says more than its operation, and what its users see more than what its requests call.
const rank = (c: Change) => (c.part || c.family ? 2 : c.operation ? 1 : 0);

/** The moments at which something became worse, what lasts before what is over, then the latest first. Of a moment that is an event, what changed first leads. */
export function momentsOf(all: Change[], events: ChangeEvent[] = []): Moment[] {
  const place = (c: Change) => {
    const event = events.find((e) => e.changes.includes(c.id));
    return event ? event.services.findIndex((s) => s.service === c.service && (s.environment ?? '') === (c.environment ?? '')) : 0;
  };
  const over = (c: Change) => c.shape?.kind === 'spike' || all.some((x) => x.verdict === 'improvement' && x.time > c.time && !x.part && !x.family && same(x, c));
  const groups: Change[][] = [];
  for (const c of all.filter(worse).sort((a, b) => a.time - b.time)) {
    const last = groups[groups.length - 1];
    if (last && c.time - last[last.length - 1].time <= near) last.push(c);
    else groups.push([c]);
  }
  // What requests call may change without anybody's waiting longer for it.
  return groups
    .filter((g) => g.some((c) => rank(c) < 2))
    .map((g) => {
      const [lead, ...more] = g.sort((a, b) => Number(over(a)) - Number(over(b)) || rank(a) - rank(b) || place(a) - place(b) || a.time - b.time);
      return { lead, more, over: over(lead) };
    })
    .sort((a, b) => Number(a.over) - Number(b.over) || b.lead.time - a.lead.time);
}

/** Where the others of a moment are: "14 more in shop and shoppers"; empty without any. */
export function moreWords(m: Moment): string {
  if (!m.more.length) return '';
  const services = [...new Set(m.more.map((c) => c.service))];
  const names = services.length > 3 ? [...services.slice(0, 2), `${services.length - 2} others`] : services;
  return `${m.more.length} more in ${names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}` : names[0]}`;
}
