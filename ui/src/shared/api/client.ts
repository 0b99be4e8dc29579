// The client of the HTTP API.

import { measured } from '../page/measure';
import type { DamageAcknowledged, DistributionResponse, FamiliesResponse, HeatmapResponse, Instead, LabelsResponse, Mark, MarksResponse, ServicesResponse, StatusResponse, TenantsResponse, TimelineResponse } from './schema';

/** What failed, in the server's words where it had some, and what to try. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly field: string | undefined,
    readonly path: string,
    readonly instead?: Instead,
  ) {
    super(message);
  }
}

/** A script of the page did not come. */
export const unreadScript = () => new ApiError(`the script that shows it did not come from ${location.host}`, 0, 'script', undefined, location.pathname);

export type Params = Record<string, string | number | undefined | null>;

function query(params: Params): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v != null && v !== '') q.set(k, String(v));
  const s = q.toString();
  return s ? `?${s}` : '';
}

let unanswered = 0;

/** Whether a request waits for its answer. */
export const asking = (): boolean => unanswered > 0;

export async function request<T>(method: string, path: string, signal?: AbortSignal, body?: unknown): Promise<T> {
  unanswered++;
  try {
    return await answered<T>(method, path, signal, body);
  } finally {
    unanswered--;
  }
}

async function answered<T>(method: string, path: string, signal?: AbortSignal, body?: unknown): Promise<T> {
  let res: Response;
  try {
    res = await fetch(path, {
      method,
      signal,
      headers: body === undefined ? { Accept: 'application/json' } : { Accept: 'application/json', 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new ApiError(`no answer from ${location.host}`, 0, 'unreachable', undefined, path);
  }
  if (!res.ok) {
    let detail: { code?: string; message?: string; field?: string; instead?: Instead } = {};
    try {
      detail = (await res.json()).error ?? {};
    } catch {
      // Not ours (a proxy's page, perhaps): the status has to do.
    }
    throw new ApiError(detail.message || `${res.status} ${res.statusText}`.trim(), res.status, detail.code ?? '', detail.field, path, detail.instead);
  }
  if (res.status === 204) return undefined as T;
  const text = await res.text();
  const began = performance.now();
  const answer = (text ? JSON.parse(text) : undefined) as T;
  // Only answers large enough to matter.
  if (text.length > 1e5) measured('parse', began);
  return answer;
}

export const address = (path: string, params: Params) => `/api/v1/${path}${query(params)}`;

export const get = <T>(path: string, params: Params, signal?: AbortSignal) => request<T>('GET', address(path, params), signal);

/** Like get, for a question that takes long and that a refresh does not ask again: asking does not count it. */
export const getAside = <T>(path: string, params: Params, signal?: AbortSignal) => answered<T>('GET', address(path, params), signal);

export interface Select {
  family?: string;
  match?: string;
  start: number;
  end: number;
}

const select = (s: Select): Params => ({ family: s.family, match: s.match, start: s.start, end: s.end });

export const api = {
  status: (signal?: AbortSignal) => get<StatusResponse>('status', {}, signal),
  services: (s: Select, o: { width: number; rows?: number }, signal?: AbortSignal) => get<ServicesResponse>('services', { match: s.match, start: s.start, end: s.end, ...o }, signal),
  /** Services to choose from: their names, environments, requests and errors. */
  serviceNames: ({ start, end }: Select, signal?: AbortSignal) => get<ServicesResponse>('services', { start, end, names: 'true' }, signal),
  heatmap: (s: Select, width: number, signal?: AbortSignal) => get<HeatmapResponse>('heatmap', { ...select(s), width }, signal),
  timeline: (s: Select, o: { width?: number; step?: number; q?: string; by?: string; offset?: string; limit?: number }, signal?: AbortSignal) =>
    get<TimelineResponse>('timeline', { ...select(s), ...o }, signal),
  distribution: (s: Select, o: { q?: string; by?: string; at?: string; buckets?: string; limit?: number }, signal?: AbortSignal) =>
    get<DistributionResponse>('distribution', { ...select(s), ...o }, signal),
  labels: (s: Select, o: { limit?: number; names?: string }, signal?: AbortSignal) =>
    get<LabelsResponse>('labels', { ...select(s), ...o }, signal),
  families: (signal?: AbortSignal) => get<FamiliesResponse>('families', {}, signal),
  tenants: (s: Select, o: { sort?: string; search?: string; offset?: number; limit?: number }, signal?: AbortSignal) =>
    get<TenantsResponse>('tenants', { ...select(s), ...o }, signal),
  marks: (start: number, end: number, signal?: AbortSignal, service?: string) => get<MarksResponse>('marks', { start, end, service }, signal),
  /** One mark, with all the figures of its verdict. */
  mark: (id: string, signal?: AbortSignal) => get<Mark>(`marks/${encodeURIComponent(id)}`, {}, signal),
  acknowledgeDamage: () => request<DamageAcknowledged>('POST', '/api/v1/damage/acknowledge', undefined, {}),
  addMark: (m: Mark) => request<Mark>('POST', '/api/v1/marks', undefined, m),
  deleteMark: (id: string) => request<void>('DELETE', `/api/v1/marks/${encodeURIComponent(id)}`),
};
