// Tenants as the page shows them: bands of experience, cohorts, and what the
// address keeps.

import type { Tenant, TenantsResponse } from '../shared/api/schema';
import { errorRatio, percent, tick } from '../shared/text/format';
import type { Num } from '../shared/api/types';
import { csvCell } from '../shared/text/export';

/** What names the tenant of a request, line by line; docs/tenants.md has the same. */
export const namingLines = {
  Python: `from opentelemetry import trace

trace.get_current_span().set_attribute("tenant.id", customer)`,
  Java: `import io.opentelemetry.api.trace.Span;

Span.current().setAttribute("tenant.id", customer);`,
  Node: `const { trace } = require('@opentelemetry/api');

trace.getActiveSpan()?.setAttribute('tenant.id', customer);`,
  Go: `import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("tenant.id", customer))`,
} as const;

/** The five bands, the quickest first. */
export const bandNames = ['instant', 'flow kept', 'patience', 'losing attention', 'lost'] as const;
export const bandTokens = ['--band-1', '--band-2', '--band-3', '--band-4', '--band-5'] as const;

/** What a band is, with its bounds: "flow kept, 100 ms–1 s". */
export function bandTitle(i: number, ends: Num[]): string {
  const name = bandNames[i];
  if (i === 0) return `${name}, up to ${tick(ends[0] ?? 0)}`;
  if (i === ends.length) return `${name}, beyond ${tick(ends[i - 1] ?? 0)}`;
  return `${name}, ${tick(ends[i - 1] ?? 0)} to ${tick(ends[i] ?? 0)}`;
}

/** All bands that hold something, in words. */
export function bandsText(shares: Num[] | undefined, ends: Num[]): string {
  const parts = (shares ?? []).map((s, i) => ({ s, i })).filter((p) => (p.s ?? 0) > 0);
  return parts.length ? parts.map((p) => `${percent(p.s)} ${bandTitle(p.i, ends)}`).join('; ') : 'no requests';
}

/** The least width of a band that holds something. */
const leastWidth = 1.5;

/** The widths of bands in a bar. What lies beyond a bound is measured from the right on a log
 * axis of three decades: all is the bar, one in a hundred a third of it, one in a thousand nothing. */
export function bandWidths(shares: Num[] | undefined, width: number): number[] {
  const of = (shares ?? []).map((s) => Math.max(0, s ?? 0));
  const length = (beyond: number) => Math.max(0, 1 + Math.log10(Math.max(beyond, 1e-9)) / 3);
  let beyond = of.reduce((a, b) => a + b, 0);
  const raised = of.map((s) => {
    const from = length(beyond);
    beyond -= s;
    return s > 0 ? Math.max(leastWidth / width, from - length(beyond)) : 0;
  });
  const sum = raised.reduce((a, b) => a + b, 0) || 1;
  return raised.map((w) => (w / sum) * width);
}

/** The share of slow requests with its interval: 2.1 % (1.4–3.2 %), 0.05 % (0–0.12 %). */
export function slowText(t: Pick<Tenant, 'slow_share' | 'slow_low' | 'slow_high'>): string {
  const share = errorRatio(t.slow_share);
  if (!t.slow_share || t.slow_low == null || t.slow_high == null) return share;
  const low = t.slow_low < 0.00005 ? '0' : errorRatio(t.slow_low).replace(/ %$/, '');
  return `${share} (${low}–${errorRatio(t.slow_high)})`;
}

/** How long a window slides over a range: a twelfth of it, a round length. A little more, such as the step that is open, makes it no longer. */
export function slideOf(seconds: number): number {
  const round = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  return round.find((s) => s >= (0.95 * seconds) / 12) ?? Math.ceil(seconds / 12 / 86400) * 86400;
}

export const lineChoices = [['0.5', 'p50'], ['0.95', 'p95'], ['0.99', 'p99']] as const;
export type LineChoice = (typeof lineChoices)[number][0];

/** What the page keeps in the address besides. */
export interface TenantsMore {
  /** What the address says that there is not, in words; the default is used instead. */
  wrong: string[];
  cohort: string;
  notRare: boolean;
  slow: string;
  tenant: string;
  line: LineChoice;
}

export const cohortNames = ['very large', 'large', 'medium', 'small'] as const;

/** A time as the server reads it, above 0: 1s, 300ms, 1m30s, 0.5. */
const isTime = (s: string) => /^(\d+(\.\d+)?|(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+)$/.test(s) && /[1-9]/.test(s);

/** How the list may be sorted, a leading minus turning it round; any other word is the default. */
export const sortOf = (s: string): string => (/^-?(suffers|requests|errors|mean|slow|cohort|size|name|0\.5|0\.95|0\.99)$/.test(s) ? s : '');

export function tenantsMore(more: Record<string, string[]>): TenantsMore {
  const one = (k: string) => more[k]?.[0] ?? '';
  const [slow, cohort] = [one('slow'), one('cohort')];
  const wrong: string[] = [];
  if (slow && !isTime(slow)) wrong.push(`“${slow}” is not a time from which a request is slow, such as 300ms or 2s: 1 s is used.`);
  if (cohort && !cohortNames.some((c) => c === cohort)) wrong.push(`There is no cohort “${cohort}”: all tenants are listed.`);
  return {
    wrong,
    cohort: cohortNames.find((c) => c === cohort) ?? '',
    notRare: one('notrare') === '1',
    slow: isTime(slow) ? slow : '',
    tenant: one('tenant'),
    line: lineChoices.find(([k]) => k === one('line'))?.[0] ?? '0.95',
  };
}

/** Times from which a request may be called slow, beside what the address says. */
export function slowChoices(chosen: string): { value: string; name: string }[] {
  const all = [['100ms', '100 ms'], ['300ms', '300 ms'], ['', '1 s'], ['3s', '3 s'], ['10s', '10 s']].map(([v, name]) => ({ value: v, name }));
  return chosen && !all.some((c) => c.value === chosen) ? [...all, { value: chosen, name: chosen }] : all;
}

/** Rows as CSV, the quantiles as asked. */
export function tenantsCsv(d: TenantsResponse): string {
  const rows = d.tenants.map((t) => [csvCell(t.name), t.cohort ?? '', t.requests, t.share, t.errors, t.mean, t.quantiles['0.5'], t.quantiles['0.95'], t.quantiles['0.99'], t.slow_share, t.slow_low, t.slow_high, t.effective].map((x) => x ?? '').join());
  return ['tenant,cohort,requests,share,errors,mean,p50,p95,p99,slow_share,slow_low,slow_high,effective', ...rows].join('\n');
}
