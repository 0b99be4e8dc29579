// PromQL matchers from the page's filters.

import type { LabelValues } from '../api/schema';

export type Filters = Record<string, string[]>;

function quote(s: string): string {
  return `"${s.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;
}

function literal(s: string): string {
  return s.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

/** One matcher: one value is equal to it, several match any of them. */
export function matcher(name: string, values: string[]): string {
  if (values.length === 1) return `${name}=${quote(values[0])}`;
  return `${name}=~${quote(values.map(literal).join('|'))}`;
}

/** A matcher of the values that hold a text, in letters of either case. */
export const holding = (name: string, text: string): string => `${name}=~${quote(`(?i).*${literal(text)}.*`)}`;

/** A selection, in a stable order, and further matchers; a label with no values selects nothing away. */
export function selection(filters: Filters, ...further: string[]): string {
  const parts = Object.keys(filters)
    .filter((name) => filters[name].length > 0)
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
    .map((name) => matcher(name, filters[name]))
    .concat(further);
  return parts.length ? `{${parts.join(',')}}` : '';
}

/** Only these labels of a selection. */
export function pick(filters: Filters, names: string[]): Filters {
  return Object.fromEntries(names.filter((n) => filters[n]?.length).map((n) => [n, filters[n]]));
}

/** The filters of another view: the environment goes along unless they name one, which is none if it is empty. */
export function carried(next: Filters, before: Filters): Filters {
  const { environment = before.environment, ...rest } = next;
  return environment?.length ? { ...rest, environment } : rest;
}

/** Environments by falling count, then those chosen that were not seen. An empty name is of what has none. */
export function environmentsOf(seen: LabelValues | undefined, chosen: string[]): { name: string; count: number }[] {
  const all = (seen?.values ?? []).map((x) => ({ name: x.value, count: x.count }));
  if (seen?.without) all.push({ name: '', count: seen.without });
  return [...all, ...chosen.filter((c) => !all.some((e) => e.name === c)).map((name) => ({ name, count: 0 }))];
}

/** Filters of checks: those of the environment, and those that name none. */
export const ofEnvironment = (filters: Filters): Filters =>
  (filters.environment?.length ? { ...filters, environment: [...new Set([...filters.environment, ''])] } : filters);

/** What an environment is called. */
export const environmentName = (name: string): string => name || 'without one';

const order = ['service', 'environment', 'operation', 'component', 'kind', 'tenant', 'status', 'version', 'variant', 'instance'];

function rank(name: string): number {
  const i = order.indexOf(name);
  return i < 0 ? order.length : i;
}

export { order as labelOrder };

/** What counts as a request where a service has spans of both kinds. */
export const requestKinds = ['server', 'consumer'];

/**
 * The kinds that count as requests of a service, among those it has: server and
 * consumer spans; all of them when it has neither.
 */
export function defaultKinds(present: string[]): string[] {
  return requestKinds.filter((k) => present.includes(k));
}

/** A word safe in a POSIX shell. */
export function shellQuote(s: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`;
}
