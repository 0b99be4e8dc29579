// Sessions as the page lists them: their order, how long they ran, the window
// that is looked at, what leads from them, and what is asked of them.

import type { Experiment, MirrorChange, MirrorState, MirrorTarget } from '../shared/api/experiments';
import type { Filters } from '../shared/page/match';
import { spanName, type TimeRange } from '../shared/text/time';
import type { Num } from '../shared/api/types';

export const durationFamily = 'mirror_duration_seconds';
export const ratioFamily = 'mirror_ratio';

/** What starts a session, for who has none yet. */
export const startCommand = 'tailscope mirror --listen :8080 --primary http://a:8081 --candidate http://b:8082';

/** When it was over: its end; of a lost one its last report; now while it runs. */
export const until = (e: Pick<Experiment, 'end' | 'updated' | 'state'>, now: number): number => e.end ?? (e.state === 'running' ? now : (e.updated ?? now));

/** How long, to the second below an hour: 12 min 31 s, 3.2 h. */
export function longText(e: Pick<Experiment, 'start' | 'end' | 'updated' | 'state'>, now: number): string {
  if (e.start == null) return '–';
  const s = Math.max(0, Math.round(until(e, now) - e.start));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, '0')} s`;
  return s < 86400 ? `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} min` : spanName(Math.round(s / 3600) * 3600);
}

const slot = 10;

/**
 * The part of the session that is looked at, on whole slots: what the range
 * holds of it, where a range that ends now means the end of the session once it
 * is over. Undefined if the range holds nothing of it.
 */
export function windowOf(e: Pick<Experiment, 'start' | 'end' | 'updated' | 'state'>, range: TimeRange, now: number): { start: number; end: number; whole: boolean } | undefined {
  const over = e.state !== 'running';
  const first = Math.floor((e.start ?? now) / slot) * slot;
  const last = Math.max(first + slot, over ? Math.ceil(until(e, now) / slot) * slot : Math.floor(now / slot) * slot);
  const [start, end] = 'last' in range ? [Math.max(first, last - range.last), last] : [Math.max(first, range.start), Math.min(last, range.end)];
  return end > start ? { start, end, whole: start <= first && end >= last } : undefined;
}

/** A range that holds all of a session, for a link. */
export function wholeRange(e: Pick<Experiment, 'start' | 'end' | 'updated' | 'state'>, now: number): TimeRange {
  const w = windowOf(e, { start: 0, end: Number.MAX_SAFE_INTEGER }, now);
  if (e.state !== 'running' && w) return { start: w.start, end: w.end };
  const long = now - (e.start ?? now);
  return { last: [6 * 3600, 86400, 7 * 86400, 30 * 86400].find((s) => s >= long) ?? 400 * 86400 };
}

export interface Narrow {
  operation?: string;
  tenant?: string;
}

const narrowed = (e: Pick<Experiment, 'id' | 'service'>, n: Narrow): Filters => ({
  service: [e.service], experiment: [e.id], ...(n.operation != null ? { operation: [n.operation] } : {}), ...(n.tenant != null ? { tenant: [n.tenant] } : {}),
});

/** The comparison of a candidate with its reference, both shadows of the same requests. */
export function compareView(e: Pick<Experiment, 'id' | 'service'>, against: string, candidate: string, n: Narrow = {}) {
  return { page: 'compare' as const, filters: { ...narrowed(e, n), status: ['ok'] }, more: { by: ['label'], label: ['variant'], a: [against], b: [candidate], family: [durationFamily] } };
}

/** The heatmap of a candidate's times, or of its ratios to the reference. */
export function heatView(e: Pick<Experiment, 'id' | 'service'>, candidate: string, n: Narrow = {}, against?: string) {
  return { page: 'family' as const, name: against ? ratioFamily : durationFamily, filters: { ...narrowed(e, n), variant: [candidate], ...(against ? { against: [against] } : {}) } };
}

export const loadFamily = 'bench_duration_seconds';

/** The heatmap of what a run of load, or a setting of an experiment, took. */
export function heatOfRun(e: Pick<Experiment, 'id' | 'service'>, variant = '', n: Narrow = {}) {
  return { page: 'family' as const, name: loadFamily, filters: { ...narrowed(e, n), ...(variant ? { variant: [variant] } : {}) } };
}

/** The comparison of two variants under load, of one experiment or of any. */
export function compareOfRun(service: string, id: string | undefined, against: string, variant: string, n: Narrow = {}) {
  const filters: Filters = id ? narrowed({ id, service }, n) : { service: [service] };
  return { page: 'compare' as const, filters: { ...filters, status: ['ok'] }, more: { by: ['label'], label: ['variant'], ...(against ? { a: [against] } : {}), b: [variant], family: [loadFamily] } };
}

/** What a list says of one beneath its name: candidates, the variable and its settings, how it was loaded, the objective, the curves. */
export function aboutText(e: Experiment): string {
  if (e.trial) return [e.trial.variable, (e.trial.settings ?? []).slice(0, 6).map((s) => s.name.replace(`${e.trial!.variable}=`, '')).join(', ')].filter(Boolean).join(': ');
  if (e.capacity) return [e.capacity.objective, e.capacity.target].filter(Boolean).join(', ');
  if (e.simulation) return [e.simulation.service, [...new Set((e.simulation.layouts ?? []).map((l) => l.curve || (e.simulation!.variable ? '' : l.name)))].filter(Boolean).slice(0, 6).join(', '), e.simulation.variable && `by ${e.simulation.variable}`].filter(Boolean).join(', ');
  if (e.bench) return [e.bench.variant, e.bench.plan.arrivals === 'closed' ? 'closed loop' : '', e.bench.target].filter(Boolean).join(', ');
  return candidatesOf(e.mirror).map((c) => c.name).join(', ');
}

// A list has no more layouts of each.
const briefLayouts = 32;

/** How much there is of one: requests, connections, rounds, layouts; of a search for capacity what it found. */
export function sizeOf(e: Experiment): { n: Num; what: string } {
  if (e.trial) return { n: e.trial.stopping.done, what: 'rounds' };
  if (e.capacity) return { n: e.capacity.answer?.value ?? null, what: e.capacity.unit };
  if (e.simulation) return { n: e.simulation.layouts?.length ?? null, what: (e.simulation.layouts?.length ?? 0) < briefLayouts ? 'layouts' : 'layouts or more' };
  if (e.bench) return { n: e.bench.account.sent, what: 'requests' };
  return { n: e.mirror?.requests ?? null, what: e.mirror?.mode === 'tcp' ? 'connections' : 'requests' };
}

/** The label filters of everything of a session. */
export const ofSession = (e: Pick<Experiment, 'id' | 'service'>): Filters => ({ service: [e.service], experiment: [e.id] });

export const shadowsOf = (m: MirrorState | undefined): MirrorTarget[] => m?.shadows ?? [];
export const candidatesOf = (m: MirrorState | undefined): MirrorTarget[] => shadowsOf(m).filter((s) => s.role === 'candidate');

/** A share as a reader types it: 25, 25 %, 0.5%; undefined if it is none from 0 to 100 %. */
export function parseShare(text: string): number | undefined {
  const m = /^\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*%?\s*$/.exec(text);
  const n = m ? Number(m[1].replace(',', '.')) / 100 : NaN;
  return n >= 0 && n <= 1 ? Number(n.toPrecision(12)) : undefined;
}

/** A share in per cent without needless digits: 100 %, 12.5 %, 0.01 %. */
export const shareText = (share: Num | undefined): string => (share == null ? '–' : `${Number((share * 100).toPrecision(4))} %`);

/** How many copies of each request: 0 and above; 2, 1.5, × 3. */
export function parseAmplify(text: string): number | undefined {
  const m = /^\s*[×x]?\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*$/i.exec(text);
  const n = m ? Number(m[1].replace(',', '.')) : NaN;
  return Number.isFinite(n) && n <= 1e6 ? n : undefined;
}

/** What of a change is of a target; an empty one if nothing is. */
export const wantedOf = (c: MirrorChange | undefined, shadow: string): { using?: number; amplify?: Num } => c?.shadows?.[shadow] ?? {};

/** The change in words: share 50 %, pause, candidate: 3 servers. */
export function changeWords(c: MirrorChange | undefined): string {
  if (!c) return '';
  const out: string[] = [];
  if (c.stop) out.push('stop');
  if (c.paused != null) out.push(c.paused ? 'pause' : 'go on');
  if (c.share != null) out.push(`share ${shareText(c.share)}`);
  for (const [name, s] of Object.entries(c.shadows ?? {})) {
    if (s.using != null) out.push(`${name}: ${s.using} ${s.using === 1 ? 'server' : 'servers'}`);
    if (s.amplify != null) out.push(`${name}: × ${s.amplify}`);
  }
  return out.join(', ');
}
