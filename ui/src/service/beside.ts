// Metrics drawn beside the latency, as the address keeps them:
//
//   process_cpu_time_seconds_total/request@instance;region=eu
//
// A name, "/request" to divide by the requests or "/heat" for a heatmap, "@label" to split by it, and
// filters. Several values of one label are several filters.

import { get } from '../shared/api/client';
import type { Filters } from '../shared/page/match';
import type { FamiliesResponse, Family } from '../shared/api/schema';

export interface Beside {
  family: string;
  per: boolean;
  /** A distribution as a heatmap too. */
  heat?: boolean;
  /** undefined: what suits; empty: nothing. */
  by: string | undefined;
  filters: Filters;
}

const escape = (s: string) => s.replace(/[%;=@/]/g, (c) => encodeURIComponent(c));
function unescape(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

export function encodeBeside(b: Beside): string {
  const filters = Object.keys(b.filters).sort().flatMap((n) => b.filters[n].map((v) => `;${escape(n)}=${escape(v)}`));
  return `${escape(b.family)}${b.per ? '/request' : b.heat ? '/heat' : ''}${b.by === undefined ? '' : `@${escape(b.by)}`}${filters.join('')}`;
}

export function decodeBeside(text: string): Beside | undefined {
  const [head, ...rest] = text.split(';');
  const m = /^([^/@]+)(\/request|\/heat)?(?:@([^/@]*))?$/.exec(head);
  if (!m) return undefined;
  const filters: Filters = {};
  for (const part of rest) {
    const at = part.indexOf('=');
    if (at > 0) (filters[unescape(part.slice(0, at))] ??= []).push(unescape(part.slice(at + 1)));
  }
  return { family: unescape(m[1]), per: m[2] === '/request', ...(m[2] === '/heat' ? { heat: true } : {}), by: m[3] === undefined ? undefined : unescape(m[3]), filters };
}

/** All of an address; what cannot be read is left out, more than eight are not drawn. */
export function besidesOf(more: Record<string, string[]>): Beside[] {
  return (more.m ?? []).map(decodeBeside).filter((b): b is Beside => b !== undefined).slice(0, 8);
}

/** What the service measured on the days of the range; everything there is without a service. */
export const readFamilies = (service: string, start: number, end: number, signal?: AbortSignal) =>
  get<FamiliesResponse>('families', service ? { service, start, end } : {}, signal);

/** Families to choose from: those that match every word, what runs beside the service first. */
export function findFamilies(all: Family[], search: string, most: number): Family[] {
  const words = search.toLowerCase().split(/[\s_]+/).filter(Boolean);
  const rank = (f: Family) => (/^(process|go|jvm|system|runtime|nodejs|container)_/.test(f.name) ? 0 : 1);
  return all
    .filter((f) => !/^(span|breakdown)_/.test(f.name) && words.every((w) => f.name.toLowerCase().includes(w)))
    .sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name))
    .slice(0, most);
}

/** What a metric is split by unless the reader chose: the label that tells a few series apart. */
export function suitingLabel(labels: { name: string; total: number }[], most: number): string {
  return [...labels].filter((l) => l.total > 1 && l.total <= most && l.name !== 'service' && l.name !== 'tenant').sort((a, b) => a.total - b.total || a.name.localeCompare(b.name))[0]?.name ?? '';
}
