// The JSON of breakdown, operations and callers, as api/breakdown.go declares it,
// and their questions.

import type { OfDay } from '../page/days';
import { get, type Select } from './client';
import type { Num, Range } from './types';

/** Which earlier day an answer is of. */
export interface DayOf {
  name: string;
  of: string;
  zone: string;
}

export interface BreakdownComponent {
  component: string;
  self: Num[] | null; // seconds per step, over its requests
  critical?: Num[];
  seconds: Num;
  share: Num;
  critical_share: Num;
  quantiles?: Record<string, Num>; // per request that spent any here
  error: Num;
}

/** A part within some of the requests, per request. */
export interface PartIn {
  seconds: Num;
  critical: Num;
  share: Num;
  calls: Num;
}

export interface BreakdownPart {
  service: string;
  component: string;
  operation: string;
  seconds: Num;
  share: Num;
  critical_share: Num;
  calls: number;
  per_request: Num;
  requests: number;
  repeated: number;
  n_plus_one: boolean;
  mean: Num;
  quantiles?: Record<string, Num>;
  error: Num;
  self?: Num[];
  band?: PartIn;
  typical?: PartIn;
}

export interface Band {
  low: Num; // exclusive
  high: Num; // inclusive; null: no bound
  above: Num;
  requests: number;
  mean: Num;
  typical: { high: Num; requests: number; mean: Num };
  components: { component: string; band: PartIn; typical: PartIn }[] | null;
}

export interface FanOut {
  service: string;
  component: string;
  operation: string;
  instances: { instance: string; calls: number; last: number; share: Num; band_share: Num }[] | null;
}

export interface Skew {
  service: string;
  peer: string;
  direction: 'ahead' | 'behind';
  calls: number;
  median: Num;
  max: Num;
}

export interface BreakdownResponse extends Range {
  step: number;
  slot: number;
  times: number[] | null;
  overlay?: DayOf | null;
  requests: number[] | null;
  total: number;
  seconds: Num;
  components: BreakdownComponent[] | null;
  parts?: BreakdownPart[];
  band?: Band;
  fan_outs?: FanOut[];
  skews?: Skew[];
  note?: string;
}

export interface Operation {
  service: string;
  operation: string;
  component: string;
  kind: string;
  verb?: string;
  calls: number;
  rate: Num;
  errors: number;
  error_ratio: Num;
  seconds: Num;
  share: Num;
  mean: Num;
  quantiles: Record<string, Num> | null;
  error: Num;
  n_plus_one: boolean;
  seconds_over: Num[] | null;
  rate_over: Num[] | null;
}

export interface Verb {
  verb: string;
  seconds: Num;
  share: Num;
  calls: number;
  seconds_over: Num[] | null;
  rate_over: Num[] | null;
}

export interface OperationsResponse extends Range {
  step: number;
  times: number[] | null;
  overlay?: DayOf | null;
  total: number;
  seconds: Num;
  operations: Operation[] | null;
  verbs?: Verb[];
}

export interface Caller {
  service: string;
  operation: string;
  /** The operation runs in the request's own service, or is called from there. */
  direct?: boolean;
  calls: number;
  requests: number;
  repeated: number;
  per_request: Num;
  seconds: Num;
  share: Num;
  n_plus_one: boolean;
}

export interface CallersResponse extends Range {
  callers: Caller[] | null;
}

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
