// Spans are sent in batches, some seconds after they ended: of the newest steps not all has
// come, and what is counted in them would read as a dip.

import type { Num } from '../api/types';

/** The moment up to which steps of a range are whole, as the answer says. */
export const wholeUntil = (answer: { whole_until?: number } | undefined, end: number): number => Math.min(end, answer?.whole_until ?? end);

/** The number of columns of which all is stored; those after them are still open. */
export const wholeColumns = (h: { start: number; step: number; whole_until?: number }, columns: number): number =>
  h.whole_until == null ? columns : Math.max(0, Math.min(columns, Math.floor((h.whole_until - h.start) / h.step)));

/** Rates or counts without those of steps that end after until. */
export const wholeOnly = (values: Num[], times: number[], step: number, until: number): Num[] => values.map((v, i) => ((times[i] ?? 0) + step > until ? null : v));
