// A session over time: the timeline's groups as lines, one colour a variant and
// one dash a quantile, on whole steps of a common time.

import type { TimelineGroup, TimelineResponse } from '../shared/api/schema';
import type { Num } from '../shared/api/types';

/** Tokens of the variants: the primary as text, the control as the side that is compared with, candidates in order. */
export function variantToken(role: string, nth: number): string {
  if (role === 'primary') return '--text';
  if (role === 'control') return '--mean';
  return ['--accent', '--quantile', '--better', '--external', '--cache'][nth % 5];
}

export const groupOf = (t: TimelineResponse | undefined, variant: string): TimelineGroup | undefined => t?.groups?.find((g) => g.labels.variant === variant);

/** A quantile of a group, as long as the times. */
export const quantileOf = (t: TimelineResponse | undefined, variant: string, q: string): Num[] => fit(groupOf(t, variant)?.quantiles?.[q], t);

/** How much a variant was asked, all its groups together; null where there is none. */
export const ratesOf = (t: TimelineResponse | undefined, variant: string): Num[] => {
  const of = (t?.groups ?? []).filter((g) => g.labels.variant === variant).map((g) => fit(g.rate, t));
  return (t?.times ?? []).map((_, i) => of.reduce<Num>((sum, r) => (r[i] == null ? sum : (sum ?? 0) + r[i]), null));
};

/** The share of them with the status error; null where there are none. */
export const errorsOf = (t: TimelineResponse | undefined, variant: string): Num[] => {
  const bad = fit(t?.groups?.find((g) => g.labels.variant === variant && g.labels.status === 'error')?.rate, t);
  return ratesOf(t, variant).map((all, i) => (all ? (bad[i] ?? 0) / all : null));
};

function fit(values: Num[] | undefined, t: TimelineResponse | undefined): Num[] {
  return (t?.times ?? []).map((_, i) => values?.[i] ?? null);
}
