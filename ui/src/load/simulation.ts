// A simulation as the page shows it: its layouts as curves over what is varied, as
// a table, and the stretch of it that can be watched.

import { perSecond } from './bench';
import { count, digits, ends, missing, percent, quantileName, shortCount, value } from '../shared/text/format';
import { axisTicks, roundUp } from '../shared/chart/heat';
import { cell, type Cell, type Sheet } from './sheets';
import type { Simulation, SimulationLayout } from '../shared/api/schema';
import type { Num } from '../shared/api/types';
import { logTicks, type Axis } from '../shared/chart/axes';

export const layoutsOf = (s: Simulation): SimulationLayout[] => s.layouts;

/** Quantiles that any layout has, in order. */
export function quantilesOf(s: Simulation): string[] {
  const all = new Set(layoutsOf(s).flatMap((l) => Object.keys(l.quantiles)));
  return [...all].sort((a, b) => Number(a) - Number(b));
}

export const at = (l: SimulationLayout, q: string): Num => l.quantiles[q]?.value ?? null;

export interface CurvePoint {
  layout: SimulationLayout;
  x: number;
  value: Num;
  low: Num;
  high: Num;
  noQueue: Num;
}

export interface Curve {
  name: string; // empty if there is only one
  q: string;
  points: CurvePoint[];
}

/** The names of the curves, in the order of their first layouts. */
export const curveNames = (s: Simulation): string[] => [...new Set(layoutsOf(s).filter((l) => l.x != null).map((l) => l.curve))];

/** One curve of each name and quantile, from the least of the variable to the most. */
export function curves(s: Simulation, quantiles: string[]): Curve[] {
  return curveNames(s).flatMap((name) => quantiles.map((q) => ({
    name, q,
    points: layoutsOf(s).filter((l) => l.x != null && l.curve === name).sort((a, b) => a.x! - b.x!).map((layout) => {
      const v = layout.quantiles[q];
      return { layout, x: layout.x!, value: v?.value ?? null, low: v?.low ?? null, high: v?.high ?? null, noQueue: layout.no_queue[q] ?? null };
    }),
  })));
}

/**
 * Stairs: where more of the variable gains less than two per cent until a step of
 * at least five per cent, for the curve's quantile. Undefined if there are none.
 */
export interface Stair {
  from: number; // first of a level stretch
  to: number; // last of it
  next: number; // where the value falls
  gain: number; // share by which it falls there
}

export function stairs(c: Curve): Stair[] {
  const own = c.points.filter((p) => p.value != null);
  const out: Stair[] = [];
  let from = 0;
  for (let i = 1; i < own.length; i++) {
    const base = own[from].value!;
    const gain = 1 - own[i].value! / base;
    if (Math.abs(gain) < 0.02) continue;
    if (i - from >= 2 && gain >= 0.05) out.push({ from: own[from].x, to: own[i - 1].x, next: own[i].x, gain });
    from = i;
  }
  return out;
}

/** An axis from zero up to at least least; unless that or zero is asked for, on a log scale where stairs at the low end were flat otherwise. Ticks are at most so many on either. */
export function valueAxis(values: number[], least = 0, zero = false): Axis & { ticks: (log: number, linear: number) => number[] } {
  const max = roundUp(Math.max(least, ...values, 1e-9) * 1.06);
  const low = Math.min(...values.filter((v) => v > 0), max) / 1.2;
  const log = !least && !zero && max / low > 8;
  return { min: log ? low : 0, max, log, ticks: (many, few) => (log ? logTicks(low, max, many) : axisTicks({ kind: 'linear', lo: 0, hi: max, capped: false, floored: false }, few)) };
}

const ratio = (v: Num, base: Num): string => (v == null || !base ? missing : `× ${(v / base).toPrecision(3)}`);

/** Every layout with what it does; columns that nobody has anything in are left out. */
export function layoutsSheet(s: Simulation): Sheet {
  const list = layoutsOf(s);
  const first = list.find((l) => at(l, '0.99') != null);
  const some = (of: (l: SimulationLayout) => Num) => list.some((l) => of(l) != null && of(l) !== 0);
  const differ = (of: (l: SimulationLayout) => Num | string) => new Set(list.map(of)).size > 1;
  type Column = [string, (l: SimulationLayout) => Cell];
  const time = (of: (l: SimulationLayout) => Num) => (l: SimulationLayout) => cell(value(of(l)), of(l));
  const share = (of: (l: SimulationLayout) => Num, most = 2) => (l: SimulationLayout) => cell(percent(of(l)), of(l), { bad: (of(l) ?? 0) > most });
  const q = (k: string): Column => [quantileName(k), (l) => {
    const v = l.quantiles[k];
    return cell(value(v?.value), v?.value ?? null, { title: v?.low == null || v.high == null ? '' : ends(value(v.low), value(v.high)) });
  }];
  const columns: Column[] = [
    ['layout', (l) => cell(l.name, undefined)],
    ...(list.some((l) => !l.stable) ? [[' stable', (l: SimulationLayout) => cell(l.stable ? '✓' : '✕ unstable', Number(l.stable), { bad: !l.stable, title: l.why ?? '' })] as Column] : []),
    ['nodes', (l) => cell(count(l.nodes), l.nodes)],
    ['shards', (l) => cell(count(l.shards), l.shards)],
    ['a node', (l) => cell(digits(l.per_node), l.per_node, { title: 'shards of the fullest node' })],
    ['threads', (l) => cell(count(l.threads), l.threads)],
    ...(differ((l) => l.cores) ? [['cores', (l: SimulationLayout) => cell(digits(l.cores), l.cores)] as Column] : []),
    ['rounds', (l) => cell(count(l.rounds), l.rounds, { title: 'shards of the fullest node by its threads, rounded up' })],
    ...(differ((l) => l.rate) ? [['rate', (l: SimulationLayout) => cell(perSecond(l.rate), l.rate)] as Column] : []),
    ...quantilesOf(s).filter((k) => ['0.5', '0.95', '0.99', '0.999'].includes(k)).map(q),
    ...(first && list.length > 1 ? [[`p99 against ${first === list[0] ? 'the first' : first.name}`, (l: SimulationLayout) => cell(ratio(at(l, '0.99'), at(first, '0.99')), at(first, '0.99') && at(l, '0.99') ? at(l, '0.99')! / at(first, '0.99')! : null)] as Column] : []),
    ['busy', share((l) => l.utilisation, 0.9)],
    ['busiest', share((l) => l.busiest, 0.9)],
    ...(some((l) => l.aggregator) ? [['aggregator', share((l) => l.aggregator, 0.9)] as Column] : []),
    ['leaf waits', time((l) => l.waiting)],
    ['straggler', (l) => cell(l.straggler == null ? missing : `× ${l.straggler.toPrecision(3)}`, l.straggler, { title: 'time of the last leaf of a query by that of a mean one' })],
    ...(some((l) => l.merge) ? [['merge', time((l) => l.merge)] as Column] : []),
    ...(some((l) => l.hedged) ? [['hedged', share((l) => l.hedged)] as Column] : []),
    ...(some((l) => l.cached) ? [['cached', share((l) => l.cached)] as Column] : []),
    ...(some((l) => l.cost) ? [['cost/h', (l: SimulationLayout) => cell(digits(l.cost), l.cost)] as Column, ['per million', (l: SimulationLayout) => cell(l.cost_each == null ? missing : digits(l.cost_each * 1e6), l.cost_each, { title: 'cost of a million queries' })] as Column] : []),
  ];
  return {
    title: 'Layouts', head: columns.map(([name]) => name), rows: list.map((l) => columns.map(([, of]) => of(l))),
    note: 'Busy is busy cores by all cores; straggler is the time of a query’s last leaf by that of its mean one. Each quantile’s interval is in its tip.',
  };
}

export function leavesSheet(s: Simulation): Sheet {
  return {
    title: 'Leaves, as they were measured', head: ['class', 'of queries', 'observations', 'moments', 'at shards', 'p50', 'p95', 'p99', 'p99.9', 'together', ' from'],
    rows: s.leaves.map((l) => [
      cell(l.class || 'all'), cell(percent(l.weight), l.weight), cell(l.observations ? shortCount(l.observations) : 'given', l.observations), cell(count(l.slots), l.slots), cell(digits(l.shards), l.shards),
      ...['0.5', '0.95', '0.99', '0.999'].map((k) => cell(value(l.latency?.quantiles[k]), l.latency?.quantiles[k] ?? null)), cell(l.together == null ? missing : l.together.toFixed(2), l.together), cell(l.source),
    ]),
    note: 'Moments are slots with a distribution of their own: a slow minute is slow for all leaves. Together is how alike leaves of one query are beyond that.',
  };
}

export const simulationSheets = (s: Simulation): Sheet[] => [layoutsSheet(s), leavesSheet(s)];

/** Layouts that can be watched. */
export const watched = (s: Simulation): SimulationLayout[] => layoutsOf(s).filter((l) => l.work?.length);
