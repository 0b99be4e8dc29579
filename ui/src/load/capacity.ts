// A search for capacity as the page shows it: its steps in the order of their
// load, what each was judged by, where time went, and the answer.

import type { Capacity, CapacityObjective, CapacitySlot, CapacityStep, ScalingLaw } from '../shared/api/schema';
import { perSecond, quantile } from './bench';
import { digits, ends, errorRatio, missing, percent, shortCount, value } from '../shared/text/format';
import { chooseAxis, layout, roundUp, type Axis, type Cells, type Heat } from '../shared/chart/heat';
import { cell, type Cell, type Sheet } from './sheets';
import { lawSheet } from './scaling';
import { spanName } from '../shared/text/time';
import type { Num } from '../shared/api/types';

export const stepsOf = (c: Capacity): CapacityStep[] => c.steps;

/** A load in its unit: 812/s, 2.5 copies, 4 servers. */
export function loadText(unit: string, x: Num | undefined): string {
  if (x == null) return missing;
  if (unit === 'requests/s') return perSecond(x);
  return `${Number.isInteger(x) ? String(x) : digits(x)} ${x === 1 ? unit.replace(/ies$/, 'y').replace(/s$/, '') : unit}`;
}

/** A load where there is no room for its unit. */
export const loadShort = (x: Num | undefined): string => (x == null ? missing : x >= 1e4 ? shortCount(x) : x >= 100 ? String(Math.round(x)) : String(Number(x.toPrecision(3))));

/** Fewer servers are more load. */
export const falling = (c: Pick<Capacity, 'unit'>): boolean => /server/.test(c.unit);

export interface Placed {
  step: CapacityStep;
  /** Its place in the order in which steps were taken, from 0. */
  at: number;
}

/** Steps from the lightest load to the heaviest, or as they were taken. */
export function ordered(c: Capacity, by: 'load' | 'time'): Placed[] {
  const out = stepsOf(c).map((step, at) => ({ step, at }));
  const sign = falling(c) ? -1 : 1;
  return by === 'time' ? out : out.sort((a, b) => sign * ((a.step.x ?? 0) - (b.step.x ?? 0)) || a.at - b.at);
}

const signs: Record<string, { sign: string; word: string; which: string; tone: string }> = {
  kept: { sign: '✓', word: 'kept', which: 'kept', tone: 'kept' }, broken: { sign: '✕', word: 'broken', which: 'broken', tone: 'broken' }, unclear: { sign: '?', word: 'unclear', which: 'unclear', tone: 'unclear' },
};
const byAll = (kept: string) => ({ ...signs[kept], sign: `(${signs[kept].sign})`, word: `${kept}, by all steps` });

/**
 * How a step came out: a sign, a word, and a name for its colour. One that does not
 * count is none of them. What a step alone leaves unclear all of them together may say:
 * where it lies to the answer's interval; its word then says so, and which is the verdict alone.
 */
export function cameOut(s: Pick<CapacityStep, 'kept' | 'valid' | 'x'>, c: Pick<Capacity, 'unit' | 'answer'>) {
  if (!s.valid) return { sign: '–', word: 'invalid', which: 'invalid', tone: 'invalid' };
  if (s.kept !== 'unclear' || s.x == null || !c.answer) return signs[s.kept] ?? signs.unclear;
  const [light, heavy] = falling(c) ? [c.answer.high, c.answer.low] : [c.answer.low, c.answer.high];
  const sign = falling(c) ? -1 : 1;
  if (light != null && sign * s.x <= sign * light) return byAll('kept');
  if (heavy != null && sign * s.x > sign * heavy) return byAll('broken');
  return signs.unclear;
}

/** Fewer were answered than asked for, by more than chance and 2 %. */
function behind(s: CapacityStep): boolean {
  if (s.rate == null || s.asked == null || s.start == null || s.end == null || !(s.end > s.start)) return false;
  return s.rate < 0.98 * s.asked - 3 * Math.sqrt(s.asked / (s.end - s.start));
}

/** Whether a condition is of a share rather than of a time. */
export const isShare = (text: string): boolean => /^\s*(errors?|checks?|failed|share)/i.test(text.replace(/^\s*primary\s+/, ''));
export const objectiveValue = (text: string, v: Num | undefined): string => (v == null ? missing : isShare(text) ? errorRatio(v) : value(v));

/** Conditions in the order in which they were given, each once. */
export function conditions(c: Capacity): string[] {
  return [...new Set(stepsOf(c).flatMap((s) => s.objectives.map((o) => o.text)))];
}

export const objectiveOf = (s: CapacityStep, text: string): CapacityObjective | undefined => s.objectives.find((o) => o.text === text);

/** The limit of the first condition on times, which every heatmap shows as a line. */
export function timeLimit(c: Capacity): { text: string; limit: number } | undefined {
  for (const s of stepsOf(c)) for (const o of s.objectives) if (!isShare(o.text) && o.limit != null && o.limit > 0) return { text: o.text, limit: o.limit };
  return undefined;
}

/** Common cells of all steps' slots: the axis holds every count, and the limit. */
export interface StepHeat {
  heat: Heat;
  axis: Axis;
  cells: Cells;
}

export function stepHeat(c: Capacity, height: number): StepHeat | undefined {
  const bounds = Float64Array.from(c.bounds, (b, i) => b ?? (i ? Infinity : 0));
  const rows = bounds.length - 1;
  if (rows < 1) return undefined;
  const rowCount = new Float64Array(rows);
  let count = 0;
  for (const s of stepsOf(c)) for (const slot of s.slots) slot.counts.forEach((n, i) => {
    if (i < rows) rowCount[i] += n;
    count += n;
  });
  if (!count) return undefined;
  const heat: Heat = {
    start: 0, end: 1, step: 1, columns: 0, whole: 0, bounds, rows, first: new Uint32Array(1), row: new Uint16Array(0), n: new Float64Array(0),
    columnCount: new Float64Array(0), columnSum: new Float64Array(0), columnMin: new Float64Array(0), columnMax: new Float64Array(0), rowCount, count, error: NaN,
  };
  const axis = { ...chooseAxis(heat, 'log', null, null), floored: false };
  return { heat, axis, cells: layout(heat, axis, height, 0, 0) };
}

/** Requests of a slot in each cell; what lies below or beyond the axis is in its first and last cell. */
export function slotCells(h: StepHeat, slot: CapacitySlot): Float64Array {
  const out = new Float64Array(h.cells.count);
  slot.counts.forEach((n, i) => {
    if (n && i < h.heat.rows) out[Math.min(h.cells.count - 1, Math.max(0, h.cells.ofRow[i]))] += n;
  });
  return out;
}

export const slotCount = (slot: CapacitySlot): number => slot.counts.reduce((a, b) => a + b, 0);

// Student's t at 97.5 %, by degrees of freedom from 1; close to it beyond (Hill 1970).
const students = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
export const student = (df: number): number => students[df - 1] ?? 1.96 + 2.37 / df + 2.82 / (df * df);

/**
 * Answers a second with a 95 % interval by batches of slots, at most ten: batches
 * depend on one another less than slots do, and those less than requests (Law 2015,
 * Simulation Modeling and Analysis, section 9.5); undefined of fewer than five.
 */
export function rateInterval(s: CapacityStep): { low: number; high: number } | undefined {
  const slots = s.slots.filter((x) => (x.width ?? 0) > 0);
  const each = Math.ceil(slots.length / 10);
  const rates: number[] = [];
  for (let i = 0; i + each <= slots.length; i += each) {
    const own = slots.slice(i, i + each);
    rates.push(own.reduce((n, x) => n + slotCount(x), 0) / own.reduce((n, x) => n + x.width!, 0));
  }
  if (rates.length < 5 || s.rate == null) return undefined;
  const mean = rates.reduce((a, b) => a + b, 0) / rates.length;
  const sd = Math.sqrt(rates.reduce((a, b) => a + (b - mean) ** 2, 0) / (rates.length - 1));
  const half = (student(rates.length - 1) * sd) / Math.sqrt(rates.length);
  return { low: Math.max(0, s.rate - half), high: s.rate + half };
}

/** Where the mean latency of a step went, in the order in which a request meets it. What nobody tells is in worked. */
export function times(s: CapacityStep): { waited: number; queued: number; worked: number } | undefined {
  if (s.worked == null) return undefined;
  return { waited: Math.max(0, s.waited ?? 0), queued: Math.max(0, s.queued ?? 0), worked: Math.max(0, s.worked) };
}

/**
 * The top of the axis of mean latencies: overload, which grows without bound, must
 * not flatten what can be learnt from, so that it may stand out at the top.
 */
export function timesTop(steps: CapacityStep[]): number {
  const of = (s: CapacityStep) => {
    const t = times(s);
    return t ? t.waited + t.queued + t.worked : 0;
  };
  const usual = Math.max(0, ...steps.filter((s) => s.kept !== 'broken').map(of));
  const all = Math.max(0, ...steps.map(of));
  return topOf([usual ? Math.min(all, usual * 2.5) : all]);
}

/** The top of an axis from zero that holds all of them. */
export const topOf = (values: (Num | undefined)[]): number => roundUp(Math.max(1e-9, ...values.map((v) => v ?? 0)));

/** A log axis that holds values and their limit, with room. */
export function ratioAxis(values: Num[]): { lo: number; hi: number } | undefined {
  const own = values.filter((v): v is number => v != null && v > 0 && Number.isFinite(v));
  if (!own.length) return undefined;
  const [lo, hi] = [Math.min(...own), Math.max(...own)];
  return { lo: lo / 1.25, hi: Math.max(hi * 1.25, (lo / 1.25) * 2) };
}

/** Why a step does not count, or ended early. */
const remark = (s: CapacityStep): string => (!s.valid ? `does not count: ${s.why || 'the generator was the limit'}` : s.stopped ? `stopped: ${s.stopped}` : '');

/** The ends of a condition's interval that are known: where few requests count, as they come in bursts, there is no upper one. */
export function objectiveInterval(o: CapacityObjective): string {
  if (o.low == null && o.high == null) return '';
  if (o.high == null) return `from ${objectiveValue(o.text, o.low)}`;
  if (o.low == null) return `up to ${objectiveValue(o.text, o.high)}`;
  return ends(objectiveValue(o.text, o.low), objectiveValue(o.text, o.high));
}

/** What there is to say of single steps, those alike together. */
function remarks(c: Capacity): string {
  const by = new Map<string, number[]>();
  stepsOf(c).forEach((s, i) => {
    const r = remark(s);
    if (r) by.set(r, [...(by.get(r) ?? []), i + 1]);
  });
  return [...by].map(([text, own]) => `Step ${own.join(', ')} ${text}. `).join('');
}

export function stepsSheet(c: Capacity): Sheet {
  const list = ordered(c, 'time');
  const queued = list.some(({ step }) => step.queued != null);
  const cpu = list.some(({ step }) => step.cpu != null);
  const outs = list.map(({ step }) => cameOut(step, c));
  const says = conditions(c);
  const judged = (s: CapacityStep, text: string): Cell => {
    const o = objectiveOf(s, text);
    if (!o) return cell(missing, null);
    const between = objectiveInterval(o);
    return cell(`${objectiveValue(text, o.value)}${between ? ` (${between})` : ''}`, o.value, { bad: o.kept === 'broken', title: `limit ${objectiveValue(text, o.limit)}: ${o.kept}` });
  };
  return {
    title: 'Steps', head: ['step', 'load', ' came out', 'asked', 'answered', ...says, 'p50', 'p99', 'errors', 'at a time', 'waited', ...(queued ? ['queued'] : []), 'worked', ...(cpu ? ['CPU, cores'] : []), 'for'],
    rows: list.map(({ step: s, at }, i) => {
      const out = outs[i];
      return [
        cell(`${at + 1} ${s.phase}`, at), cell(loadText(c.unit, s.x), s.x), cell(`${out.sign} ${out.which}`, ['kept', 'unclear', 'broken', 'invalid'].indexOf(out.tone), { good: out.tone === 'kept', bad: out.tone === 'broken', title: remark(s) || (out.word === out.which ? '' : out.word) }), cell(perSecond(s.asked), s.asked), cell(perSecond(s.rate), s.rate, { bad: behind(s) }),
        ...says.map((t) => judged(s, t)), ...['0.5', '0.99'].map((k) => cell(value(quantile(s.latency, k)), quantile(s.latency, k))), cell(errorRatio(s.errors), s.errors), cell(digits(s.concurrency), s.concurrency),
        cell(value(s.waited), s.waited), ...(queued ? [cell(value(s.queued), s.queued, { title: s.queued_by ? `by ${s.queued_by}` : 'nobody says' })] : []), cell(value(s.worked), s.worked), ...(cpu ? [cell(digits(s.cpu), s.cpu)] : []),
        cell(s.start != null && s.end != null ? value(s.end - s.start) : missing, s.end != null && s.start != null ? s.end - s.start : null),
      ];
    }),
    note: `${remarks(c)}${outs.some((o) => o.word !== o.which) ? 'In brackets: by all steps together. ' : ''}Waited is before a request was sent, ${queued ? 'queued at the target by its own word, ' : ''}worked the rest of the mean latency. Intervals are by slots, never by requests: under load those are alike.`,
  };
}

/** What other readings of the processes under test were, by step. */
export function resourcesSheet(c: Capacity): Sheet {
  const names = [...new Set(stepsOf(c).flatMap((s) => Object.keys(s.resources ?? {})))].sort();
  return {
    title: 'Resources', head: ['load', ...names],
    rows: names.length ? ordered(c, 'load').map(({ step: s }) => [cell(loadText(c.unit, s.x), s.x), ...names.map((n) => cell(value(s.resources?.[n], /bytes/.test(n) ? 'bytes' : ''), s.resources?.[n] ?? null))]) : [],
  };
}

export const capacitySheets = (c: Capacity): Sheet[] => [stepsSheet(c), resourcesSheet(c), ...(c.law ? [lawSheet(c.law as ScalingLaw)] : [])];

/** What keeps the answer from being believed, or a target from being as it was. */
export function capacityAlarms(c: Capacity, state: string): string[] {
  const out: string[] = [];
  if (c.failed) out.push(`It ended before its time: ${c.failed}`);
  if (c.restore_error) out.push(`${falling(c) ? 'The pool' : 'The load'} was not put back as it was: ${c.restore_error}`);
  else if (state === 'lost' && !c.restored && c.mode !== 'rate' && c.mode !== 'fit') out.push('Its program is gone and has not said that it put everything back: look at the pool or the copies');
  return out;
}

/** The most steps that stopped, and how fast: what a reader asks of a search on a live system. */
export function slowestStop(c: Capacity): Num {
  const all = stepsOf(c).flatMap((s) => (s.stopped && s.stopped_after != null ? [s.stopped_after] : []));
  return all.length ? Math.max(...all) : null;
}

/** The interval of an answer: 799 … 826 requests/s, 95 %. An end that is null lies beyond what was held. */
export function answerInterval(c: Capacity): string {
  const a = c.answer;
  if (!a) return '';
  if (a.low == null && a.high == null) return 'wider than what was held';
  const level = percent(a.level).replace('.0', '');
  const broken = c.verdict === 'below'; // at the end that is known
  if (a.low == null) return `${broken ? 'below' : 'no more than'} ${loadText(c.unit, a.high)}`;
  if (a.high == null) return `${broken ? 'more than' : 'at least'} ${loadText(c.unit, a.low)}`;
  return `${loadShort(a.low)} … ${loadText(c.unit, a.high)}, ${level} interval`;
}

export const stepSpan = (s: CapacityStep): string => (s.start != null && s.end != null ? spanName(Math.max(1, Math.round(s.end - s.start))) : '');
