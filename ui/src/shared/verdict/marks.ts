// Marks and their verdicts, as lists show them. Pure.

import { verdictSign } from './words';
import type { CompareMeasure, CompareRow, CompareWarning } from '../api/compare';
import type { Mark, Num, Range } from '../api/types';

/** The JSON of a mark's verdict, as api/api.go declares it. */
export interface MarkVerdict {
  state: 'waiting' | 'early' | 'final';
  judged: Num;
  next: Num;
  window: number;
  verdict?: string;
  sentence?: string;
  services: ServiceVerdict[] | null;
}

export interface ServiceVerdict {
  service: string;
  verdict: string;
  sentence: string;
  before: Range;
  after: Range;
  measures: CompareMeasure[] | null;
  operations: CompareRow[] | null;
  warnings: CompareWarning[] | null;
}

export const changedWords = ['regression', 'mixed', 'improvement'];

/** The word of a verdict and what is to be said of when: "so far" while more is to come. */
export function verdictWords(v: MarkVerdict | undefined, clock: (t: number) => string): { word: string; said: string; note: string } {
  if (!v) return { word: '', said: 'not judged', note: '' };
  if (v.state === 'waiting') return { word: 'waiting', said: 'waiting', note: v.next == null ? '' : `judged at ${clock(v.next)}` };
  const word = v.verdict ?? '';
  return { word, said: word, note: v.state === 'early' ? 'so far' : '' };
}

/** What a tooltip adds to a mark's name: the sign, the word and the size. */
export function told(v: MarkVerdict | undefined): string {
  if (!v?.verdict || v.state === 'waiting') return '';
  return `\n${verdictSign(v.verdict).sign} ${v.verdict}${v.state === 'early' ? ' so far' : ''}: ${short(v.sentence)}`;
}

/** A sentence up to its first interval, without the service whose row it is in: what there is room for in a table. */
export function short(sentence: string | undefined, service = ''): string {
  const s = (sentence ?? '').replace(` of ${service} is `, ' ').replace(` of ${service} `, ' ');
  const at = s.search(/ \(\d[\d.]* % interval/);
  return at < 0 ? s : s.slice(0, at);
}

/** How long ago, in one unit; "in 5 min" for what is to come. */
export function ago(t: number, now: number): string {
  const s = Math.abs(now - t);
  if (s < 45) return 'now';
  const [size, unit] = s < 90 * 60 ? [60, 'min'] : s < 36 * 3600 ? [3600, 'h'] : [86400, 'd'];
  const n = `${Math.max(1, Math.round(s / size))} ${unit}`;
  return t > now ? `in ${n}` : `${n} ago`;
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

/** The service whose before and after a mark leads to: its own, or the first of those judged. */
export const leadsTo = (m: Mark, preferred = ''): string => m.service || preferred || m.verdict?.services?.[0]?.service || '';
