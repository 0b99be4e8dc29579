// Questions about where time goes: breakdown, operations and callers.

import type { OfDay } from '../page/days';
import { get, type Select } from './client';
import type { BreakdownResponse, CallersResponse, OperationsResponse } from './schema';

const where = (s: Select) => ({ match: s.match, start: s.start, end: s.end });

/** The requests to look at closely: above a quantile, or between two durations. */
export type BandChoice = { above: number } | { low: number | null; high: number | null };

export function breakdown(s: Select, o: { width?: number; step?: number; q?: string; limit?: number; band: BandChoice } & OfDay, signal?: AbortSignal): Promise<BreakdownResponse> {
  const { band, ...rest } = o;
  return get('breakdown', { ...where(s), ...rest, ...band }, signal);
}

export interface OperationsQuestion extends OfDay {
  width: number;
  q?: string;
  sort?: string;
  search?: string;
  offset?: number;
  limit?: number;
  component?: string;
  kind?: string;
}

export function operations(s: Select, o: OperationsQuestion, signal?: AbortSignal): Promise<OperationsResponse> {
  return get('operations', { ...where(s), ...o }, signal);
}

export function callers(s: { start: number; end: number }, o: { service: string; component: string; operation: string }, signal?: AbortSignal): Promise<CallersResponse> {
  return get('callers', { ...o, start: s.start, end: s.end }, signal);
}
