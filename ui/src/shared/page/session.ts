// One session wherever it is shown: how long it ran, the window that is looked
// at, and the links that lead from it.

import type { MirrorState, MirrorTarget, Session } from '../api/schema';
import type { TimeRange } from '../text/time';
import type { Filters } from './match';

export const durationFamily = 'mirror_duration_seconds';

export const ratioFamily = 'mirror_ratio';

/** When it was over: its end; of a lost one its last report; now while it runs. */
export const until = (e: Pick<Session, 'end' | 'updated' | 'state'>, now: number): number => e.end ?? (e.state === 'running' ? now : (e.updated ?? now));

const slot = 10;

/**
 * The part of the session that is looked at, on whole slots: what the range
 * holds of it, where a range that ends now means the end of the session once it
 * is over. Undefined if the range holds nothing of it.
 */
export function windowOf(e: Pick<Session, 'start' | 'end' | 'updated' | 'state'>, range: TimeRange, now: number): { start: number; end: number; whole: boolean } | undefined {
  const over = e.state !== 'running';
  const first = Math.floor((e.start ?? now) / slot) * slot;
  const last = Math.max(first + slot, over ? Math.ceil(until(e, now) / slot) * slot : Math.floor(now / slot) * slot);
  const [start, end] = 'last' in range ? [Math.max(first, last - range.last), last] : [Math.max(first, range.start), Math.min(last, range.end)];
  return end > start ? { start, end, whole: start <= first && end >= last } : undefined;
}

/** A range that holds all of a session, for a link. */
export function wholeRange(e: Pick<Session, 'start' | 'end' | 'updated' | 'state'>, now: number): TimeRange {
  const w = windowOf(e, { start: 0, end: Number.MAX_SAFE_INTEGER }, now);
  if (e.state !== 'running' && w) return { start: w.start, end: w.end };
  const long = now - (e.start ?? now);
  return { last: [6 * 3600, 86400, 7 * 86400, 30 * 86400].find((s) => s >= long) ?? 400 * 86400 };
}

export interface Narrow {
  operation?: string;
  tenant?: string;
}

const narrowed = (e: Pick<Session, 'id' | 'service'>, n: Narrow): Filters => ({
  service: [e.service], experiment: [e.id], ...(n.operation != null ? { operation: [n.operation] } : {}), ...(n.tenant != null ? { tenant: [n.tenant] } : {}),
});

/** The comparison of a candidate with its reference, both shadows of the same requests. */
export function compareView(e: Pick<Session, 'id' | 'service'>, against: string, candidate: string, n: Narrow = {}) {
  return { page: 'compare' as const, filters: { ...narrowed(e, n), status: ['ok'] }, more: { by: ['label'], label: ['variant'], a: [against], b: [candidate], family: [durationFamily] } };
}

/** The heatmap of a candidate's times, or of its ratios to the reference. */
export function heatView(e: Pick<Session, 'id' | 'service'>, candidate: string, n: Narrow = {}, against?: string) {
  return { page: 'family' as const, name: against ? ratioFamily : durationFamily, filters: { ...narrowed(e, n), variant: [candidate], ...(against ? { against: [against] } : {}) } };
}

export const loadFamily = 'bench_duration_seconds';

/** The heatmap of what a run of load, or a setting of an experiment, took. */
export function heatOfRun(e: Pick<Session, 'id' | 'service'>, variant = '', n: Narrow = {}) {
  return { page: 'family' as const, name: loadFamily, filters: { ...narrowed(e, n), ...(variant ? { variant: [variant] } : {}) } };
}

/** The comparison of two variants under load, of one experiment or of any. */
export function compareOfRun(service: string, id: string | undefined, against: string, variant: string, n: Narrow = {}) {
  const filters: Filters = id ? narrowed({ id, service }, n) : { service: [service] };
  return { page: 'compare' as const, filters: { ...filters, status: ['ok'] }, more: { by: ['label'], label: ['variant'], ...(against ? { a: [against] } : {}), b: [variant], family: [loadFamily] } };
}

/** The label filters of everything of a session. */
export const ofSession = (e: Pick<Session, 'id' | 'service'>): Filters => ({ service: [e.service], experiment: [e.id] });

export const shadowsOf = (m: MirrorState | undefined): MirrorTarget[] => m?.shadows ?? [];

export const candidatesOf = (m: MirrorState | undefined): MirrorTarget[] => shadowsOf(m).filter((s) => s.role === 'candidate');
