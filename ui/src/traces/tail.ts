// The tail beside the typical request: what the slow ones do that the others
// do not, part by part, and in a sentence.

import type { Band, BreakdownPart, FanOut, PartIn } from '../shared/api/schema';
import type { BandChoice } from '../shared/api/breakdown';
import { byComponent, componentName } from '../shared/text/components';
import { count, interval, percent, quantileName, value } from '../shared/text/format';
import { partKey, type Kind } from './stack';
import type { Num } from '../shared/api/types';

/** The band of an address: low and high in seconds, or a quantile; p95 where it says nothing sensible. */
export function bandOf(more: Record<string, string[]>): BandChoice {
  const number = (key: string): number | null => {
    const s = more[key]?.[0];
    const n = Number(s ?? NaN);
    return s && Number.isFinite(n) && n > 0 ? n : null;
  };
  const [low, high] = [number('low'), number('high')];
  if ((low != null || high != null) && !(low != null && high != null && low >= high)) return { low, high };
  const above = number('above');
  return { above: above != null && above < 1 ? above : 0.95 };
}

/** What the band's requests are called: "above p95", "198–202 ms". */
export function bandName(choice: BandChoice): string {
  if ('above' in choice) return `above ${quantileName(choice.above)}`;
  const { low, high } = choice;
  if (low == null) return high == null ? 'all' : `up to ${value(high)}`;
  return high == null ? `slower than ${value(low)}` : interval(low, high);
}

export interface Segment {
  key: string;
  component: string;
  name: string;
  seconds: number;
  /** Which of the segments of its component it is, and of how many, in both bars alike. */
  nth: number;
  of: number;
}

export interface Bar {
  segments: Segment[]; // in the order of the stack, without queue
  before: number; // seconds in the queue
  total: number; // without queue
}

const nothing: PartIn = { seconds: 0, critical: 0, share: 0, calls: 0 };
const of = (p: PartIn, kind: Kind): number => (kind === 'critical' ? p.critical : p.seconds) ?? 0;

/** The parts that have a segment of their own, those with the most time in either bar. */
const mostParts = 10;

/**
 * The two bars, on one scale: span is the seconds from the longer queue to the longer end. They
 * are split by component, or by part if there are any, and what is left of each component.
 */
export function bars(band: Band, kind: Kind, parts: BreakdownPart[] = []): { band: Bar; typical: Bar; before: number; span: number } {
  const all = [...band.components].sort((a, b) => byComponent(a.component, b.component));
  const most = (p: BreakdownPart) => Math.max(of(p.band ?? nothing, kind), of(p.typical ?? nothing, kind));
  const chosen = parts.filter((p) => most(p) > 0).sort((a, b) => most(b) - most(a)).slice(0, mostParts);
  const bar = (which: 'band' | 'typical'): Bar => {
    const segments = all.filter((c) => c.component !== 'queue').flatMap((c): Segment[] => {
      const own = chosen.filter((p) => p.component === c.component);
      const whole = of(c[which], kind);
      const rest = whole - own.reduce((s, p) => s + of(p[which] ?? nothing, kind), 0);
      const n = own.length + 1;
      return [
        ...own.map((p, nth) => ({ key: partKey(p), component: c.component, name: partName(p), seconds: of(p[which] ?? nothing, kind), nth, of: n })),
        { key: c.component, component: c.component, name: own.length ? `other ${componentName(c.component)}` : componentName(c.component), seconds: rest > 1e-6 * whole ? rest : 0, nth: own.length, of: n },
      ];
    }).filter((s) => s.seconds > 0);
    const queue = all.find((c) => c.component === 'queue');
    // Time in the queue is not on the path of the request itself.
    return { segments, before: queue ? (queue[which].seconds ?? 0) : 0, total: segments.reduce((s, x) => s + x.seconds, 0) };
  };
  const out = { band: bar('band'), typical: bar('typical') };
  const before = Math.max(out.band.before, out.typical.before);
  return { ...out, before, span: before + Math.max(out.band.total, out.typical.total) };
}

export interface Difference {
  part: BreakdownPart;
  typical: number;
  band: number;
  difference: number;
  /** Of the whole difference between the two; NaN if there is none. */
  share: number;
  typicalCalls: number;
  bandCalls: number;
}

/** Parts by falling size of their difference. */
export function differences(parts: BreakdownPart[], band: Band, kind: Kind): Difference[] {
  const whole = (band.mean ?? NaN) - (band.typical.mean ?? NaN);
  return parts
    .filter((p) => p.band || p.typical)
    .map((part) => {
      const [b, t] = [part.band ?? nothing, part.typical ?? nothing];
      const difference = of(b, kind) - of(t, kind);
      return {
        part, typical: of(t, kind), band: of(b, kind), difference, typicalCalls: t.calls ?? 0, bandCalls: b.calls ?? 0,
        share: part.component === 'queue' || !(whole > 0) ? NaN : difference / whole,
      };
    })
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || a.part.operation.localeCompare(b.part.operation));
}

/** What a part is called: the operation, or the component where it has none. */
export function partName(p: { operation: string; component: string }): string {
  return p.operation || componentName(p.component);
}

/** The tail in a sentence, the answer first. */
export function sentence(band: Band, choice: BandChoice, diffs: Difference[]): string {
  if (!band.requests) return `No request is ${bandName(choice)} in this range.`;
  const which = 'above' in choice ? `slower than ${value(band.low)}, ${bandName(choice)},` : `${'low' in choice && choice.high == null ? '' : 'of '}${bandName(choice)}`;
  const head = `${count(band.requests)} ${band.requests === 1 ? 'request' : 'requests'} ${which} took ${value(band.mean)} on average`;
  const more = (band.mean ?? 0) - (band.typical.mean ?? 0);
  if (!(more > 0)) return `${head}, no longer than the typical ${value(band.typical.mean)}.`;
  const first = diffs.find((d) => d.difference > 0 && d.part.component !== 'queue');
  const why = first && Number.isFinite(first.share) ? ` ${percent(Math.min(1, first.share))} of the difference is ${partName(first.part)} (${componentName(first.part.component)}${callsGrew(first) ? `, called ${times(first.bandCalls)} instead of ${times(first.typicalCalls)}` : ''}).` : '';
  return `${head}, ${value(more)} more than the typical ${value(band.typical.mean)}.${why}`;
}

/** Whether more calls, not slower ones, are what is different. */
export function callsGrew(d: Difference): boolean {
  return d.bandCalls >= 1.5 * Math.max(d.typicalCalls, 1e-9) && d.bandCalls - d.typicalCalls >= 1;
}

function times(n: number): string {
  const s = n >= 9.95 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, '');
  return s === '1' ? 'once' : `${s} times`;
}

/** Calls per request, as a table wants them: 0.5 · 1.0 · 12.4 · 340. */
export function calls(n: Num | undefined): string {
  if (n == null || !Number.isFinite(n)) return '–';
  if (n > 0 && n < 0.05) return '< 0.1';
  return n >= 99.95 ? count(n) : n.toFixed(1);
}

export interface Instance {
  instance: string;
  calls: number;
  last: number;
  share: number;
  /** The share it would have if none were slower than another: that of the calls. */
  even: number;
  bandShare: number;
  /** Last more often than chance explains, and by a quarter or more. */
  straggler: boolean;
}

/** Which instance a fan-out waits for. */
export function instances(f: FanOut): Instance[] {
  const list = f.instances;
  const allCalls = list.reduce((s, i) => s + i.calls, 0);
  const allLast = list.reduce((s, i) => s + i.last, 0);
  return list.map((i) => {
    const even = allCalls ? i.calls / allCalls : 1 / list.length;
    const share = i.share ?? 0;
    // Three standard deviations of a binomial with the even share.
    const chance = allLast ? 3 * Math.sqrt((even * (1 - even)) / allLast) : Infinity;
    return {
      instance: i.instance, calls: i.calls, last: i.last, share, even, bandShare: i.band_share ?? NaN,
      straggler: list.length > 1 && share >= 1.25 * even && share - even > chance,
    };
  });
}
