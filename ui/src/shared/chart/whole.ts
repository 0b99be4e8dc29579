// Spans are sent in batches, some seconds after they ended: of the newest steps not all has
// come, and what is counted in them would read as a dip.

import type { Num } from '../api/types';

/** The moment up to which all slots are stored. */
export const storedUntil = (now: number): number => now - 20;

/** The moment up to which slots of a range are whole. */
export const wholeUntil = (end: number, now: number): number => Math.min(end, storedUntil(now));

/** The number of columns of which all is stored; those after them are still open. */
export const wholeColumns = (h: { start: number; step: number; columns: number }, until: number): number => Math.max(0, Math.min(h.columns, Math.floor((until - h.start) / h.step)));

/** Rates or counts without those of steps that end after until. */
export const wholeOnly = (values: Num[], times: number[], step: number, until: number): Num[] => values.map((v, i) => ((times[i] ?? 0) + step > until ? null : v));
