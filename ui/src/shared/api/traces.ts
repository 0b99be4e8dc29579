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
}

export const readTraces = (q: TracesQuestion, signal?: AbortSignal) => get<TracesResponse>('traces', { ...q }, signal);

export const readTrace = (id: string, signal?: AbortSignal) => get<TraceResponse>(`traces/${encodeURIComponent(id)}`, {}, signal);
