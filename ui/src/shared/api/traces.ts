// Questions about traces.

import { get } from './client';
import type { TraceResponse, TracesResponse } from './schema';

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
  where?: boolean; // answer the longest part of each request, and the groups
}

export const readTraces = (q: TracesQuestion, signal?: AbortSignal) => get<TracesResponse>('traces', { ...q, where: q.where ? 'true' : undefined }, signal);

export const readTrace = (id: string, signal?: AbortSignal) => get<TraceResponse>(`traces/${encodeURIComponent(id)}`, {}, signal);
