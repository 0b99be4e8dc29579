// Apdex and the time T that satisfies a user.

import type { ApdexResponse, ApdexRow, ApdexTarget, ApdexTargetsResponse } from '../shared/api/schema';
import { get, request } from '../shared/api/client';
import { value } from '../shared/text/format';

export const readApdex = (q: { match: string; start: number; end: number; width: number; overlay?: string; tz?: string }, signal?: AbortSignal) => get<ApdexResponse>('apdex', { ...q }, signal);
export const readTargets = (signal?: AbortSignal) => get<ApdexTargetsResponse>('apdex-targets', {}, signal);
export const putTarget = (t: ApdexTarget) => request<ApdexTarget>('PUT', '/api/v1/apdex-targets', undefined, t);
export const deleteTarget = (t: { service: string; operation?: string }) =>
  request<void>('DELETE', `/api/v1/apdex-targets?${new URLSearchParams({ service: t.service, ...(t.operation ? { operation: t.operation } : {}) })}`);

/** Labels that change which requests are counted, but not whether Apdex has a meaning. */
export const apdexLabels = ['environment', 'operation', 'tenant', 'version', 'variant', 'instance'];

/** Whether Apdex says anything under these filters: not of calls, nor of failures alone. */
export function apdexFits(filters: Record<string, string[]>): boolean {
  return Object.keys(filters).every((n) => apdexLabels.includes(n));
}

export function originWords(row: Pick<ApdexRow, 'from' | 'operation'>): string {
  switch (row.from) {
    case 'operation': return 'set for this operation';
    case 'service': return row.operation ? 'set for the service' : 'set for this service';
    case 'asked': return 'as asked';
    default: return 'the default';
  }
}

export function thinWords(row: Pick<ApdexRow, 'rate'>): string {
  const perMinute = row.rate == null ? '' : ` (${(row.rate * 60).toFixed(row.rate * 60 < 10 ? 1 : 0)} here)`;
  return `fewer than 100 requests a minute${perMinute}, so it means little`;
}

/** The sentence behind the number. */
export function apdexWords(row: ApdexRow): string {
  const between = row.low != null && row.high != null ? ` Between ${row.low.toFixed(3)} and ${row.high.toFixed(3)}: what the buckets that hold T and 4 T leave open.` : '';
  return `Satisfied up to T ${value(row.t)} (${originWords(row)}), tolerating up to ${value(row.t * 4)}, failed is frustrated.${between}${row.thin ? ` Grey: ${thinWords(row)}.` : ''}`;
}
