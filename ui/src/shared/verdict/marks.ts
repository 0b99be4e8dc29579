// Marks and their verdicts, as lists show them. Pure.

import { verdictSign } from './words';
import type { Mark, MarkVerdict } from '../api/schema';

/** Whether a mark may be of a service in one of some environments; none stands for any. */
export const concerns = (m: Mark, service: string, environments: string[] = []): boolean =>
  (!m.service || !service || m.service === service) && (!m.environment || !environments.length || environments.includes(m.environment));

/** What a mark concerns: shop in staging. */
export const whereOf = (m: Mark, every: string): string => (m.service ? m.service + (m.environment ? ` in ${m.environment}` : '') : every);

/** The service whose before and after a mark leads to: its own, or the first of those judged. */
export const leadsTo = (m: Mark, preferred = ''): string => m.service || preferred || m.verdict?.services?.[0]?.service || '';

/** The filters of what a mark of one environment leads to. */
export const environmentOf = (m: Mark): Record<string, string[]> => (m.environment ? { environment: [m.environment] } : {});

/** The word of a verdict and what is to be said of when: "so far" while more is to come. */
export function verdictWords(v: MarkVerdict | undefined, clock: (t: number) => string): { word: string; said: string; note: string } {
  if (!v) return { word: '', said: 'not judged', note: '' };
  if (v.state === 'waiting') return { word: 'waiting', said: 'waiting', note: v.next == null ? '' : `will be judged at ${clock(v.next)}` };
  const word = v.verdict ?? '';
  return { word, said: word, note: stateNote(v) };
}

/** What more is to come of a verdict, and what a provisional one is based on. */
function stateNote(v: MarkVerdict): string {
  if (v.state === 'early') return 'so far';
  if (v.state !== 'provisional') return '';
  return `provisional, from ${Math.max(0, ...v.services.map((s) => s.after.end - s.after.start))} s of one-second slots`;
}

/** What a tooltip adds to a mark's name: the sign, the word and the size. */
export function told(v: MarkVerdict | undefined): string {
  if (!v?.verdict || v.state === 'waiting') return '';
  return `\n${verdictSign(v.verdict).sign} ${v.verdict}${v.state === 'early' ? ' so far' : v.state === 'provisional' ? ', provisional' : ''}: ${short(v.sentence)}`;
}

/** A sentence up to its first interval, without the service whose row it is in: what there is room for in a table. */
export function short(sentence: string | undefined, service = ''): string {
  const s = (sentence ?? '').replace(` of ${service} is `, ' ').replace(` of ${service} `, ' ');
  const at = s.search(/ \(\d[\d.]* % interval/);
  return at < 0 ? s : s.slice(0, at);
}
