// The Universal Scalability Law as the page draws it: the curve and what it is
// held against, axes, and the table of its coefficients.

import type { ScalingConfiguration, ScalingLaw, ScalingPoint, ScalingResponse, ScalingValue } from '../shared/api/schema';
import { perSecond } from './bench';
import { apdex, count, digits, ends, missing, percent, signedValue, value } from '../shared/text/format';
import { slotName } from '../shared/text/time';
import { roundUp } from '../shared/chart/heat';
import { cell, type Sheet } from './sheets';
import type { Num } from '../shared/api/types';

/** λN / (1 + σ(N−1) + κN(N−1)); null without coefficients. */
export function lawAt(l: ScalingLaw, n: number): Num {
  const [a, s, k] = [l.lambda.value, l.sigma.value, l.kappa.value];
  if (a == null || s == null || k == null || !(n > 0)) return n === 0 ? 0 : null;
  return (a * n) / (1 + s * (n - 1) + k * n * (n - 1));
}

export interface LawAxes {
  /** The ends of both axes, from zero. */
  n: number;
  rate: number;
  /** Up to where there are points; beyond, the curve is extrapolated. */
  seen: number;
}

/** Axes that hold every point, and the peak if it is not far beyond them. */
export function lawAxes(l: ScalingLaw | undefined, points: ScalingPoint[]): LawAxes | undefined {
  const own = points.filter((p) => p.n != null && p.rate != null && p.n > 0);
  if (!own.length) return undefined;
  const seen = Math.max(...own.map((p) => p.n!));
  const peak = l?.peak_n.value;
  const n = peak != null && peak < 2.5 * seen ? Math.max(seen * 1.15, peak * 1.15) : seen * 1.25;
  let rate = Math.max(...own.map((p) => p.rate!));
  if (l) for (let i = 1; i <= 40; i++) rate = Math.max(rate, lawAt(l, (n * i) / 40) ?? 0);
  return { n: roundUp(n), rate: roundUp(rate * 1.04), seen };
}

/** The curve as points, many enough to look round. Below one request at a time it is a line through the origin. */
export function lawLine(l: ScalingLaw, from: number, to: number, most = 120): [number, number][] {
  const out: [number, number][] = [];
  for (let i = 0; i <= most; i++) {
    const n = from + ((to - from) * i) / most;
    const v = lawAt(l, n);
    if (v != null) out.push([n, v]);
  }
  return out;
}

/** A coefficient, which may be very small: 0.0123, 1.2 × 10⁻⁵. */
export function coefficient(v: Num | undefined): string {
  if (v == null) return missing;
  if (v === 0) return '0';
  if (Math.abs(v) >= 1e-4) return digits(v);
  const e = Math.floor(Math.log10(Math.abs(v)));
  return `${(v / 10 ** e).toPrecision(3)} × 10${[...String(e)].map((c) => (c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(c)])).join('')}`;
}

const between = (v: ScalingValue, show: (n: Num) => string) => (v.low == null && v.high == null ? '' : v.low == null ? `up to ${show(v.high)}` : v.high == null ? `${show(v.low)} or more` : ends(show(v.low), show(v.high)));

/** The coefficients and what follows from them, with their intervals. */
export function lawSheet(l: ScalingLaw): Sheet {
  const row = (name: string, v: ScalingValue, show: (n: Num) => string, says: string) => [cell(name), cell(v.value == null ? 'none' : show(v.value), v.value), cell(between(v, show)), cell(says)];
  return {
    title: 'The law', head: ['', 'estimate', ` ${percent(l.level).replace('.0', '')} interval`, ' '],
    rows: [
      row('λ', l.lambda, perSecond, 'one request at a time reaches'),
      row('σ', l.sigma, coefficient, 'contention: the share that only one can do at a time'),
      row('κ', l.kappa, coefficient, 'coherency: what each pair costs to agree'),
      row('peak at', l.peak_n, (v) => `${digits(v)} at a time`, 'beyond it more load makes less'),
      row('peak', l.peak_rate, perSecond, 'the most that goes through'),
      row('ceiling', l.ceiling, perSecond, 'λ/σ: no concurrency reaches it'),
      [cell('R²'), cell(l.r2 == null ? missing : l.r2.toFixed(3), l.r2, { bad: l.r2 != null && l.r2 < 0.8 }), cell(''), cell(l.error == null ? '' : `residual standard error ${perSecond(l.error)}`)],
    ],
  };
}

/** The law as response time over throughput, in seconds: up to a concurrency, and beyond a peak back again. */
export function responseLine(l: ScalingLaw, from: number, to: number, most = 160): [number, number][] {
  return lawLine(l, from, to, most).flatMap(([n, rate]) => (n > 0 && rate > 0 ? [[rate, n / rate] as [number, number]] : []));
}

/** The hour of the day of a moment, from 0 up to 24, by the clocks of a zone, the reader's own by default. */
export function hourOf(t: number, zone?: string): number {
  const parts = new Intl.DateTimeFormat('en-GB', { hour: 'numeric', minute: 'numeric', hourCycle: 'h23', timeZone: zone }).formatToParts(t * 1000);
  const of = (type: string) => Number(parts.find((p) => p.type === type)?.value ?? 0);
  return of('hour') + of('minute') / 60;
}

/** The colour of a moment's hour of the day: a token for three hours each. */
export const hourColour = (t: number, zone?: string): string => `--hours-${Math.floor(hourOf(t, zone) / 3)}`;

/** What a configuration is called: by the marks that it began with. */
export const configurationName = (c: ScalingConfiguration, all: ScalingConfiguration[]): string => (c.name ? `with ${c.name}` : all.length > 1 ? `before ${all[1].name}` : 'the whole range');

/** What each configuration of a service came to. */
export function configurationsSheet(r: ScalingResponse): Sheet {
  const cpu = (v: Num) => (v == null ? missing : r.cpu?.endsWith('utilization') ? percent(v) : `${digits(v)} cores`);
  const all = r.configurations;
  return {
    title: 'Before and after each mark',
    head: ['configuration', 'requests', 'requests/s', 'mean', 'p50', 'p95', 'p99', 'errors', 'Apdex', ...(r.cpu ? ['CPU'] : []), ...(r.memory ? ['memory'] : []), 'change of mean', ' mean, against before'],
    rows: all.map((c) => [
      cell(configurationName(c, all), c.start, { title: slotName(c.start, c.end) }), cell(count(c.requests), c.requests), cell(perSecond(c.rate), c.rate), cell(value(c.mean), c.mean),
      ...['p50', 'p95', 'p99'].map((q) => cell(value(c.quantiles[q]), c.quantiles[q])), cell(percent(c.errors), c.errors, { bad: (c.errors ?? 0) > 0.01 }), cell(apdex(c.apdex), c.apdex),
      ...(r.cpu ? [cell(cpu(c.cpu), c.cpu)] : []), ...(r.memory ? [cell(value(c.memory, 'bytes'), c.memory)] : []),
      c.change?.before != null && c.change.after != null ? cell(signedValue(c.change.after - c.change.before), c.change.after - c.change.before) : cell(''),
      cell(c.change?.sentence ?? ''),
    ]),
    note: [all.length > 1 ? 'In the last columns means are compared with the same mix of operations, so that their changes add up; what else changed at the same time is in them too.' : '', r.cpu ? `CPU is ${r.cpu} of all instances.` : '', r.memory ? `Memory is ${r.memory} of all instances.` : ''].filter(Boolean).join(' '),
  };
}

export function pointsSheet(points: ScalingPoint[]): Sheet {
  return {
    title: 'Points', head: ['time', 'concurrency', 'rate', 'mean latency', ' '],
    rows: points.map((p) => [cell(p.time == null ? missing : new Date(p.time * 1000).toISOString(), p.time), cell(digits(p.n), p.n), cell(perSecond(p.rate), p.rate), cell(value(p.mean), p.mean), cell(p.left ? 'left out of the fit' : '')]),
  };
}
