// Spans are sent in batches, and a slot of ten seconds is stored once it is over: of the
// newest steps not all has come, and what is counted in them would read as a dip.

import type { Num } from '../api/types';

/** The moment up to which slots are whole. */
export const wholeUntil = (end: number, now: number): number => Math.min(end, now - 20);

/** Rates or counts without those of steps that end after until. */
export const wholeOnly = (values: Num[], times: number[], step: number, until: number): Num[] => values.map((v, i) => ((times[i] ?? 0) + step > until ? null : v));
