// Stacked areas: from what was measured per step to layers that lie on each
// other. Layers stand above zero from the ground up; what lies before the
// request (queue) hangs below zero, as a band of its own. A step without
// requests is a gap in every layer, never zero.

import type { BreakdownPart, BreakdownResponse } from '../shared/api/schema';
import { byComponent, componentName } from '../shared/text/components';
import { onSteps } from '../shared/page/days';
import type { Num } from '../shared/api/types';

export interface Layer {
  key: string;
  name: string;
  values: Num[];
  /** Below zero: before the request. */
  before?: boolean;
}

/** Another stack laid over this one, as a line. */
export interface Line {
  name: string;
  dash: number[];
  /** How high it was. */
  values: Num[];
  /** What it was made of, the greatest first. */
  parts: { name: string; values: Num[] }[];
  /** What is drawn: its height, or where its layers meet if all are as high. */
  curves: Num[][];
}

export interface Stacked {
  /** Step edges: the start of each step and the end of the last. */
  edges: number[];
  /** The far edge of each layer, in the order of the layers, one value more than steps. */
  far: Num[][];
  /** Sum of the layers above zero per step. */
  total: Num[];
}

/** Lays layers on each other. */
export function stack(times: number[], step: number, layers: Layer[]): Stacked {
  const n = times.length;
  const up: Num[] = new Array(n).fill(null);
  const down: Num[] = new Array(n).fill(null);
  // A layer without a value where others have one is a layer of no height there.
  const present = times.map((_, i) => layers.some((l) => l.values[i] != null));
  const far = layers.map((l) => {
    const sum = l.before ? down : up;
    for (let i = 0; i < n; i++) {
      if (present[i]) sum[i] = (sum[i] ?? 0) + (l.before ? -1 : 1) * (l.values[i] ?? 0);
    }
    return closed(sum);
  });
  const total = times.map((_, i) => (present[i] ? (up[i] ?? 0) : null));
  return { edges: n ? [...times, times[n - 1] + step] : [], far, total };
}

/** The last value is repeated, as a step is drawn from its start to its end. */
export function closed(values: Num[]): Num[] {
  return values.length ? [...values, values[values.length - 1]] : [];
}

/** The line of a stack that was measured on steps of its own; undefined if it has no value. */
export function lineOf(name: string, dash: number[], from: { start: number; step: number; times: number[] }, layers: Layer[], to: { start: number; step: number; n: number }, shared = false): Line | undefined {
  const times = from.times;
  const put = (values: Num[]) => onSteps(values, from, to);
  const { total, far } = stack(times, from.step, layers);
  const values = put(total);
  if (!values.some((v) => v != null)) return undefined;
  const size = (vs: Num[]) => vs.reduce((s: number, v) => s + (v ?? 0), 0);
  const parts = layers.map((l) => ({ name: l.name, values: put(l.values) })).sort((a, b) => size(b.values) - size(a.values));
  const met = far.filter((_, i) => !layers[i].before).slice(0, -1).map((f) => put(f.slice(0, -1)));
  return { name, dash, values, parts, curves: shared ? met : [values] };
}

export type Unit = 'request' | 'second' | 'share';
export type Kind = 'self' | 'critical';

/** What tells parts apart. */
export const partKey = (p: Pick<BreakdownPart, 'service' | 'component' | 'operation' | 'system'>): string => `${p.service} ${p.component} ${p.operation}${p.system ? ` ${p.system}` : ''}`;

/**
 * The layers of a breakdown: seconds per request, seconds per second, or shares
 * of the requests' time. until is the moment up to which traces are complete:
 * a later step would read as a dip per second.
 */
export function componentLayers(b: BreakdownResponse, unit: Unit, kind: Kind, until = Infinity): Layer[] {
  const times = b.times;
  const raw = [...b.components]
    .sort((x, y) => byComponent(x.component, y.component))
    .map((c) => ({ key: c.component, values: (kind === 'critical' ? c.critical : c.self) ?? c.self ?? [] }));
  return layersOf(raw, times, b.step, b.requests, unit, until).map((l) => ({ ...l, name: componentName(l.key), before: l.key === 'queue' }));
}

/**
 * The layers of the heaviest parts, those of one component beside each other,
 * and what is left of the components. Exclusive time only.
 */
export function partLayers(b: BreakdownResponse, unit: Unit, most: number, until = Infinity): (Layer & { component: string; seconds: Num })[] {
  const times = b.times;
  const top = (b.parts ?? [])
    .filter((p) => p.self?.length)
    .slice(0, most)
    .sort((x, y) => byComponent(x.component, y.component) || (y.seconds ?? 0) - (x.seconds ?? 0));
  const raw = top.map((p) => ({ key: p.component === 'queue' ? 'queue' : partKey(p), values: p.self ?? [] }));
  const inside = b.components.filter((c) => c.component !== 'queue');
  const rest = times.map((_, i) => {
    const whole = inside.reduce((s, c) => s + (c.self[i] ?? 0), 0);
    const shown = raw.reduce((s, l) => s + (l.key === 'queue' ? 0 : (l.values[i] ?? 0)), 0);
    return whole - shown > 1e-6 * whole ? whole - shown : 0;
  });
  const layers = layersOf([...raw, { key: '', values: rest }], times, b.step, b.requests, unit, until);
  const out = layers.map((l, i) => ({
    ...l,
    name: top[i] ? top[i].operation || componentName(top[i].component) : 'others',
    component: top[i]?.component ?? '',
    seconds: top[i] ? top[i].seconds : rest.reduce((s, x) => s + x, 0),
    before: l.key === 'queue',
  }));
  return rest.some((x) => x > 0) ? out : out.slice(0, -1);
}

function layersOf(raw: { key: string; values: Num[] }[], times: number[], step: number, requests: number[], unit: Unit, until: number): Layer[] {
  const whole = times.map((_, i) => raw.reduce((s, l) => s + (l.key === 'queue' ? 0 : (l.values[i] ?? 0)), 0));
  return raw.map((l) => ({
    key: l.key,
    name: l.key,
    values: times.map((t, i): Num => {
      if (!requests[i]) return null;
      const v = l.values[i] ?? 0;
      if (unit === 'request') return v / requests[i];
      if (unit === 'share') return whole[i] > 0 ? v / whole[i] : null;
      return t + step > until ? null : v / step;
    }),
  }));
}

/** The heaviest of many and what is left of the whole, per second, heaviest lowest. */
export function topLayers(rows: { key: string; name: string; seconds: Num; over: Num[] }[], whole: Num[] | null, times: number[], step: number, most: number, until = Infinity): Layer[] {
  const per = (v: Num | undefined, t: number): Num => (t + step > until ? null : (v ?? 0) / step);
  const top = [...rows].sort((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0)).slice(0, most);
  const layers: Layer[] = top.map((r) => ({ key: r.key, name: r.name, values: times.map((t, i) => per(r.over[i], t)) }));
  if (whole) {
    const rest = times.map((t, i) => {
      const left = (whole[i] ?? 0) - top.reduce((s, r) => s + (r.over[i] ?? 0), 0);
      // What rounding leaves of nothing is nothing.
      return per(left > 1e-9 * (whole[i] ?? 0) ? left : 0, t);
    });
    if (rest.some((v) => (v ?? 0) > 0)) layers.push({ key: '', name: 'others', values: rest });
  }
  return layers;
}

/** Per-step sums of several series; null where none has a value. */
export function sumOver(series: (Num[] | undefined)[], n: number): Num[] {
  return Array.from({ length: n }, (_, i) => {
    let sum: Num = null;
    for (const s of series) if (s?.[i] != null) sum = (sum ?? 0) + (s[i] as number);
    return sum;
  });
}

/**
 * Shades of one colour, the first the strongest: neighbours in a stack of the
 * same component. Light pages go from dark to light, dark pages the other way.
 */
export function shades(base: string, n: number, theme: 'light' | 'dark'): string[] {
  const m = /^oklch\(([\d.]+) ([\d.]+) ([\d.]+)\)$/.exec(base);
  if (!m || n < 1) return new Array(Math.max(0, n)).fill(base);
  const [c, h] = [Number(m[2]), Number(m[3])];
  const [mid, most] = theme === 'light' ? [0.59, 0.21] : [0.64, -0.22];
  // Two or three need not lie as far apart as five.
  const half = most * Math.min(1, 0.05 + 0.2 * n);
  return Array.from({ length: n }, (_, i) => {
    const t = n === 1 ? 0.4 : i / (n - 1);
    const l = mid + half * (2 * t - 1);
    // Very light and very dark colours hold less chroma.
    const chroma = c * (1 - 1.6 * Math.max(0, Math.abs(l - 0.6) - 0.12));
    return `oklch(${l.toFixed(3)} ${chroma.toFixed(3)} ${h})`;
  });
}
