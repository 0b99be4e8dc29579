// The list of marks: which are chosen, and where each leads. Pure.

import type { Mark, MarkGroup } from '../shared/api/schema';


export const changedWords = ['regression', 'mixed', 'improvement'];

/** The services that marks name, sorted. */
export const servicesOf = (marks: Mark[]): string[] => [...new Set(marks.map((m) => m.service ?? '').filter(Boolean))].sort();

/** The marks that concern a service and hold every word of the search, the newest first. */
export function chosen(marks: Mark[], service: string, search: string): Mark[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (m: Mark) => [m.name, m.service, m.revision, m.user, m.description, m.verdict?.verdict, m.verdict?.sentence].join(' ').toLowerCase();
  return marks
    .filter((m) => (!service || !m.service || m.service === service) && words.every((w) => text(m).includes(w)))
    .sort((a, b) => (b.time ?? 0) - (a.time ?? 0) || (a.id ?? '').localeCompare(b.id ?? ''));
}

/** The groups of marks whose name or service holds every word of the search, at most five. */
export function groupsOf(groups: MarkGroup[], search: string): MarkGroup[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return groups.filter((g) => words.every((w) => `${g.name} ${g.service ?? ''}`.toLowerCase().includes(w))).slice(0, 5);
}
