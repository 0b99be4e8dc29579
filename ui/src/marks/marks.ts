// The list of marks: which are chosen, and where each leads. Pure.

import type { CompareMeasure, CompareRow, Mark, MarkGroup, ServiceVerdict } from '../shared/api/schema';

export const changedWords = ['regression', 'mixed', 'improvement'];

// A quarter of 5 %, for four families of figures.
const surely = 0.05 / 4;

/**
 * The rows of a verdict that changed surely enough, each with the measure that tells it: that of the verdict's sentence,
 * else one that got worse, as its sentences begin, else the first.
 */
export const changedRows = (rows: CompareRow[], sentence: string): { row: CompareRow; m: CompareMeasure }[] =>
  rows.flatMap((row) => {
    const changed = row.measures.filter((m) => m.change && (m.adjusted_p ?? 1) <= surely);
    const said = sentence.toLowerCase();
    const m = changed.find((x) => x.sentence && said.includes(x.sentence.toLowerCase())) ?? changed.find((x) => x.change === 'worse') ?? changed[0];
    return m ? [{ row, m }] : [];
  });

/** The measures of a verdict, the one that its sentence begins with first. */
export function leadFirst({ measures, sentence }: Pick<ServiceVerdict, 'measures' | 'sentence'>): CompareMeasure[] {
  const lead = measures.find((m) => m.sentence && sentence.toLowerCase().startsWith(m.sentence.toLowerCase()));
  return lead ? [lead, ...measures.filter((m) => m !== lead)] : measures;
}

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
