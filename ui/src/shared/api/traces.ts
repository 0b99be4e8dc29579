// The JSON of /api/v1/traces, as api/api.go declares it, and its questions.

import { get } from './client';
import type { Num, Range } from './types';

export interface TraceRow {
  trace_id: string;
  span_id: string;
  service: string;
  operation: string;
  tenant?: string;
  failed: boolean;
  why: string[] | null; // slow, failed, exemplar
  start: number;
  duration: number;
}

export interface TracesResponse extends Range {
  traces: TraceRow[] | null;
  /** The address of a trace in another system, with {trace_id} in it. */
  link?: string;
}

/** One span; times are seconds after the trace's start. */
export interface Span {
  span_id: string;
  parent: number; // index, -1 for a root
  depth: number;
  service: string;
  operation: string;
  component: string;
  kind: string;
  tenant?: string;
  instance?: string;
  failed: boolean;
  request: boolean; // an entry span
  orphan: boolean;
  async: boolean; // outlives its parent
  start: number;
  duration: number;
  self: number;
  critical: number;
  path?: number[]; // stretches on the critical path, in pairs
  queue?: number;
  shifted?: number; // by how much it was moved to where it fits
  text?: string;
  detail?: string;
}

export interface TraceSkew {
  service: string;
  peer: string;
  direction: string;
  calls: number;
  median: Num;
  max: Num;
}

export interface TraceResponse {
  trace_id: string;
  start: number;
  duration: number;
  complete: boolean;
  left_out?: number;
  spans: Span[] | null;
  components: { component: string; self: number; critical: number }[] | null;
  skews?: TraceSkew[] | null;
  link?: string;
}

export interface TracesQuestion {
  match: string;
  start: number;
  end: number;
  min?: number;
  max?: number;
  why?: string;
  sort: 'slowest' | 'newest' | 'nearest';
  at?: number;
  time?: number;
  limit?: number;
}

export const readTraces = (q: TracesQuestion, signal?: AbortSignal) => get<TracesResponse>('traces', { ...q }, signal);

export const readTrace = (id: string, signal?: AbortSignal) => get<TraceResponse>(`traces/${encodeURIComponent(id)}`, {}, signal);
