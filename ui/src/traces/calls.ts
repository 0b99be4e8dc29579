// What the charts of a service's calls stack: operations by what they do, and
// the heaviest of them. Seconds of each second, or calls of each.

import type { Operation, OperationsResponse } from '../shared/api/schema';
import { wholeOnly } from '../shared/chart/whole';
import { sumOver, topLayers, type Layer } from './stack';
import type { Num } from '../shared/api/types';

/** Tells operations of one service apart. */
export const callKey = (o: Pick<Operation, 'component' | 'operation' | 'system'>) => `${o.component} ${o.operation}${o.system ? ` ${o.system}` : ''}`;

const over = (x: { seconds_over: Num[]; rate_over: Num[] }, byCalls: boolean) => (byCalls ? x.rate_over : x.seconds_over);
// Rates are per second already; seconds are summed over a step.
const per = (h: OperationsResponse, byCalls: boolean) => (byCalls ? 1 : h.step);

/** What the page calls the find and the save of the API, for several and for one. */
export const verbNames: Record<string, string> = { find: 'reads', save: 'writes', other: 'other' };
export const verbName: Record<string, string> = { find: 'read', save: 'write', other: 'other' };

/** Reads, writes and other; those that never happened are left out. A step that ends after until is not over. */
export function verbLayers(h: OperationsResponse, byCalls: boolean, until = Infinity): Layer[] {
  return Object.entries(verbNames).flatMap(([key, name]) => {
    const x = h.verbs?.find((y) => y.verb === key);
    if (!x?.calls) return [];
    return [{ key, name, values: wholeOnly(h.times.map((_, i) => (over(x, byCalls)?.[i] ?? 0) / per(h, byCalls)), h.times, h.step, until) }];
  });
}

/** The heaviest operations, or those of the keys given, and all others together. */
export function heaviest(h: OperationsResponse, byCalls: boolean, most: number, until = Infinity, keys?: string[]): Layer[] {
  const rows = h.operations.map((o) => ({ key: callKey(o), name: o.operation || '(none)', seconds: o.seconds, over: over(o, byCalls) }));
  if (!rows.length) return [];
  const times = h.times;
  const whole = sumOver((h.verbs?.length ? h.verbs : h.operations).map((x) => over(x, byCalls)), times.length);
  const shown = keys ? rows.filter((r) => keys.includes(r.key)) : rows;
  const p = per(h, byCalls);
  return topLayers(shown, whole, times, p, keys ? shown.length : most, until - h.step + p);
}
