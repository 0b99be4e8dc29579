// Before a mark and after it: two windows of one length, their distributions on
// one axis, and their figures beside each other. Plain ratios, no verdict.

import type { BreakdownResponse, Bucket, DistributionGroup, MarkVerdict, Range } from '../shared/api/schema';
import { errorRatio, rate, value } from '../shared/text/format';
import { spanName } from '../shared/text/time';
import { ratioWords } from '../shared/verdict/words';
import type { Num } from '../shared/api/types';

/** Slots that divide each other, and for how long the store keeps them unless told otherwise. */
const slots = [{ slot: 10, kept: 2 * 86400 }, { slot: 60, kept: 35 * 86400 }, { slot: 600, kept: 100 * 86400 }, { slot: 3600, kept: Infinity }];

/** The finest slots in which a window of a length can be asked for whole: still kept, and not too many. */
export function slotOf(start: number, length: number, now: number): number {
  return slots.find((s) => now - start < s.kept && length / s.slot <= 1500)?.slot ?? 3600;
}

/**
 * The windows around a moment, on whole slots, so that no answer is widened to what is on the
 * other side: the slot that holds the moment is in neither. What is after ends at the present at the latest.
 */
export function windowsAround(t: number, length: number, now: number, slot = slotOf(t - length, length, now)): { slot: number; before: Range; after: Range } {
  const mid = Math.floor(t / slot) * slot;
  const from = Math.ceil(t / slot) * slot;
  length = Math.ceil(length / slot) * slot;
  const end = Math.min(from + length, Math.floor(now / slot) * slot);
  return { slot, before: { start: mid - length, end: mid }, after: { start: from, end: Math.max(from, end) } };
}

/** The sides that a mark's verdict is of, or why what stands below it is not of them. */
export interface Judged {
  windows?: ReturnType<typeof windowsAround>;
  /** The windows are longer than the sides, as slots so short are no longer kept: what is in them differs a little. */
  widened: boolean;
  why: string;
}

/**
 * The windows of a verdict of a service, on whole slots of ten seconds or on the longer ones that are still kept: the
 * sides are then widened outwards, and the slots that hold the mark and what settles are in neither.
 */
export function judgedSides(v: Pick<MarkVerdict, 'state' | 'step'> | undefined, of: readonly ({ before: Range; after: Range } | undefined)[], now: number): Judged {
  const none = (why: string): Judged => ({ widened: false, why });
  const [s] = of;
  if (!v) return none('the verdict could not be read');
  if (v.state === 'waiting') return none('there is no verdict yet');
  if (of.length > 1) return none('each environment is judged by itself, choose one in the header');
  if (!s || s.before.end <= s.before.start || s.after.end <= s.after.start) return none('there is too little data for sides');
  if (v.step !== slots[0].slot) return none('a provisional verdict is of slots of a second, which are not kept');
  const slot = slotOf(s.before.start, Math.max(s.before.end - s.before.start, s.after.end - s.after.start), now);
  const down = (t: number) => Math.floor(t / slot) * slot;
  const up = (t: number) => Math.ceil(t / slot) * slot;
  const before = { start: down(s.before.start), end: down(s.before.end) };
  const after = { start: up(s.after.start), end: up(s.after.end) };
  if (before.end <= before.start || after.end <= after.start) return none(`slots of ${spanName(slot)}, the shortest that are kept of that time, are longer than the sides`);
  const widened = before.start !== s.before.start || before.end !== s.before.end || after.start !== s.after.start || after.end !== s.after.end;
  return { windows: { slot, before, after }, widened, why: '' };
}

/** The figures that the verdict's table does not have: of the same sides each stands once. */
export const besideVerdict = (rows: FigureRow[], measures: readonly { name: string }[]): FigureRow[] =>
  rows.filter((r) => !measures.some((m) => m.name === r.name.toLowerCase()));

/** How long the windows are: of these, what the address says. */
export const lengths = [300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400];

export interface Side {
  count: number;
  seconds: number;
  errors: number;
  group: DistributionGroup | undefined;
}

export interface FigureRow {
  name: string;
  before: string;
  after: string;
  change: string;
}

export function figures(a: Side, b: Side): FigureRow[] {
  const per = (s: Side) => (s.seconds > 0 ? s.count / s.seconds : null);
  const failed = (s: Side) => (s.count > 0 ? s.errors / s.count : null);
  const q = (s: Side, k: string) => s.group?.quantiles?.[k];
  const took = (name: string, x: Num | undefined, y: Num | undefined): FigureRow => ({ name, before: value(x), after: value(y), change: ratioWords(x, y, 'slower', 'faster') });
  return [
    { name: 'Rate', before: rate(per(a)), after: rate(per(b)), change: ratioWords(per(a), per(b), 'more', 'less') },
    took('p50', q(a, '0.5'), q(b, '0.5')), took('p95', q(a, '0.95'), q(b, '0.95')), took('p99', q(a, '0.99'), q(b, '0.99')), took('Mean', a.group?.mean, b.group?.mean),
    { name: 'Errors', before: errorRatio(failed(a)), after: errorRatio(failed(b)), change: ratioWords(failed(a), failed(b), 'more', 'less') },
  ];
}

export interface Curve {
  /** Steps: from low to high, the share of all that a bucket of the axis' unit width would hold. */
  steps: { low: number; high: number; density: number; share: number }[];
}

/** Shares per bucket, divided by the bucket's width on a log axis, so that buckets of unlike width compare. */
export function curveOf(buckets: Bucket[] | undefined, count: number): Curve {
  const steps = [];
  for (const b of buckets ?? []) {
    if (b.low == null || b.high == null || !(b.low > 0) || !(b.high > b.low) || !b.count || !count) continue;
    const share = b.count / count;
    steps.push({ low: b.low, high: b.high, share, density: share / Math.log(b.high / b.low) });
  }
  return { steps };
}

/** The axis that holds both curves, and their highest point. Far outliers are kept: nothing is cut. */
export function spanOf(curves: Curve[]): { low: number; high: number; most: number } | undefined {
  let low = Infinity;
  let high = 0;
  let most = 0;
  for (const c of curves) {
    for (const s of c.steps) {
      low = Math.min(low, s.low);
      high = Math.max(high, s.high);
      most = Math.max(most, s.density);
    }
  }
  return most > 0 ? { low, high, most } : undefined;
}

/** A curve as points that hold until the next one. Gaps fall to the ground. */
export function curvePoints(c: Curve): [number, number][] {
  const out: [number, number][] = [];
  let at: number | null = null;
  for (const s of c.steps) {
    // It rises from the ground just before its first step.
    if (at == null) out.push([s.low * (1 - 1e-6), 0]);
    else if (Math.abs(at / s.low - 1) > 1e-9) out.push([at, 0]);
    out.push([s.low, s.density]);
    at = s.high;
  }
  return at == null ? out : [...out, [at, 0]];
}

export interface PartRow {
  component: string;
  before: Num;
  after: Num;
}

/** Seconds per request and component, of both windows; components that neither has are left out. */
export function partsOf(a: BreakdownResponse | undefined, b: BreakdownResponse | undefined): PartRow[] {
  const per = (d: BreakdownResponse | undefined, c: string): Num => {
    if (!d?.total) return null;
    return (d.components.find((x) => x.component === c)?.seconds ?? 0) / d.total;
  };
  const names = [...new Set([...(a?.components ?? []), ...(b?.components ?? [])].map((c) => c.component))];
  return names.map((component) => ({ component, before: per(a, component), after: per(b, component) })).filter((r) => r.before || r.after);
}

/** How many seconds of a window lie after the first request in it: data that begin within it make a window shorter. */
export function coveredOf(w: Range, t: { times: number[]; groups: { count: number[] }[] } | undefined): number {
  const counts = t?.groups?.[0]?.count ?? [];
  const first = counts.findIndex((n) => n > 0);
  const from = first > 0 ? (t?.times?.[first] ?? w.start) : w.start;
  return Math.max(0, w.end - Math.max(w.start, from));
}
