// A run of load as the page shows it: what was asked and came of it, and the
// tables, distributions and time line of its document.

import type { BenchAccount, BenchEvent, BenchLatency, BenchLoad, BenchQuery, BenchResult, BenchSlot, BenchWarmUp, CompareCurve, Environment } from '../shared/api/schema';
import { count, errorRatio, missing, percent, quantileName, rate, value, total } from '../shared/text/format';
import { cell, type Cell, type Sheet } from './sheets';
import type { Num, Counts } from '../shared/api/types';

export const perSecond = (v: Num | undefined) => (v == null ? missing : rate(v, '').replace(' /', '/'));
export const quantile = (l: BenchLatency | undefined, q: string): Num => l?.quantiles?.[q] ?? null;
const share = (n: number, of: number) => (of ? n / of : null);

/** due = sent + dropped + unsent, and sent = answered + failed + cut off: what is missing in either, 0 if nothing. */
export function unaccounted(a: BenchAccount): number {
  return Math.abs(a.due - a.sent - a.dropped - a.unsent) + Math.abs(a.sent - a.answered - total(a.failed) - a.cut_off);
}

/** How requests arrive, in a sentence. */
export function planText(b: BenchResult): string {
  const p = b.plan;
  const arrivals = { constant: 'evenly spaced', poisson: 'at random (Poisson)', recorded: 'as recorded', closed: 'closed loop: each connection waits for its answer' }[p.arrivals] ?? p.arrivals;
  return [arrivals, `${p.protocol}${p.tls ? ' over TLS' : ''}`, `at most ${count(p.connections)} ${p.connections === 1 ? 'connection' : 'connections'}`, p.timeout ? `timeout ${value(p.timeout)}` : ''].filter(Boolean).join(', ');
}

const quantiles = ['0.5', '0.75', '0.9', '0.95', '0.99', '0.999', '0.9999'];

/** Both clocks at each quantile. */
export function clocks(b: BenchResult): Sheet {
  const line = (name: string, of: (l: BenchLatency) => Num): Cell[] => {
    const [a, u] = [of(b.latency), of(b.uncorrected)];
    return [cell(name), cell(value(a), a), cell(value(u), u), cell(a && u ? `× ${(a / u).toPrecision(3)}` : missing, a && u ? a / u : null, { bad: !!a && !!u && a / u > 1.5 })];
  };
  return {
    title: 'Latency on both clocks', head: ['', 'From when due', 'From when sent', 'Ratio'],
    rows: [line('mean', (l) => l.mean), ...quantiles.filter((q) => quantile(b.latency, q) != null).map((q) => line(quantileName(q), (l) => quantile(l, q))), line('max', (l) => l.max)],
    note: 'What counts is the time from when the schedule wanted a request. Tools that wait for a free worker report the other one, and miss what requests waited before they were sent.',
  };
}

/** Both distributions, on the bounds of both, as a comparison has them. */
export function curveOf(l: BenchLatency, u: BenchLatency): CompareCurve | undefined {
  if (!l.counts?.length || !u.counts?.length) return undefined;
  const values = [...new Set([...(l.bounds ?? []), ...(u.bounds ?? [])])].filter((v): v is number => v != null).sort((a, b) => a - b);
  const shares = (d: BenchLatency) => {
    let i = 0;
    let below = 0;
    const all = d.counts!.reduce((a, b) => a + b, 0);
    return values.map((v) => {
      while (i < d.counts!.length && (d.bounds![i + 1] ?? 0) <= v) below += d.counts![i++];
      return below / all;
    });
  };
  return { like_for_like: false, values, a: shares(u), b: shares(l), ps: [], quantiles_a: [], quantiles_b: [], ratio: [], low: [], high: [] };
}

const causes = (c: Counts | undefined) => Object.entries(c ?? {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]);

function nameRows(list: BenchQuery[], what: string): Sheet {
  return {
    title: what === 'query' ? 'Queries' : 'Tenants', head: [what, 'answered', 'errors', 'p50', 'p95', 'p99', 'max', 'p99 from sent', 'bytes'],
    rows: list.map((q) => [
      cell(q.name), cell(count(q.answered), q.answered), cell(errorRatio(share(q.errors, q.sent)), share(q.errors, q.sent), { bad: q.errors > 0, title: causes({ ...q.statuses, ...q.checks }).map(([k, n]) => `${k}: ${count(n)}`).join(', ') }),
      ...['0.5', '0.95', '0.99'].map((k) => cell(value(quantile(q.latency, k)), quantile(q.latency, k))), cell(value(q.latency.max), q.latency.max),
      cell(value(quantile(q.uncorrected, '0.99')), quantile(q.uncorrected, '0.99')), cell(value(q.bytes, 'bytes'), q.bytes),
    ]),
  };
}

export const queries = (b: BenchResult): Sheet => nameRows(b.queries, 'query');
export const tenants = (b: BenchResult): Sheet => nameRows(b.tenants, 'tenant');

const rates = (from: Num, to: Num) => (from == null ? 'closed loop' : from === to ? perSecond(from) : `${perSecond(from)} to ${perSecond(to)}`);

export function phases(b: BenchResult): Sheet {
  return {
    title: 'Phases', head: ['phase', 'from', 'for', 'asked', 'answered', 'errors', 'p50', 'p99', 'max', 'p99 from sent'],
    rows: b.phases.map((p) => [
      cell(p.name), cell(`+${value(p.start)}`, p.start), cell(value((p.end ?? 0) - (p.start ?? 0))), cell(rates(p.from, p.to), p.to), cell(perSecond(share(p.answered, (p.end ?? 0) - (p.start ?? 0))), p.answered),
      cell(errorRatio(share(p.errors, p.due)), p.errors, { bad: p.errors > 0 }), ...['0.5', '0.99'].map((k) => cell(value(quantile(p.latency, k)), quantile(p.latency, k))), cell(value(p.latency.max), p.latency.max),
      cell(value(quantile(p.uncorrected, '0.99')), quantile(p.uncorrected, '0.99')),
    ]),
  };
}

/** A threshold's figure in its unit, which its words tell. */
export function thresholdValue(text: string, v: Num): string {
  if (v == null) return missing;
  return /^\s*(errors|checks)/.test(text) ? errorRatio(v) : /^\s*rate/.test(text) ? perSecond(v) : value(v);
}

export function thresholds(b: BenchResult): Sheet {
  return {
    title: 'Thresholds', head: ['', ' condition', 'seen', ' '],
    rows: b.thresholds.map((t) => [cell(t.met ? '✓ met' : '✕ missed', Number(t.met), { bad: !t.met, good: t.met }), cell(t.text + (t.query && !t.text.includes(t.query) ? ` of ${t.query}` : '')), cell(thresholdValue(t.text, t.value), t.value), cell(t.aborted ? 'it ended the run' : '')]),
  };
}

export function errors(b: BenchResult): Sheet {
  const a = b.account;
  const row = (what: string, n: number, bad: boolean) => [cell(what), cell(count(n), n, { bad }), cell(percent(share(n, a.sent)), n)];
  return {
    title: 'Answers and errors', head: ['', 'requests', 'of those sent'],
    rows: [
      ...causes(a.statuses).map(([k, n]) => row(`answered ${k}`, n, Number(k) >= 400)),
      ...causes(a.failed).map(([k, n]) => row(`no whole answer: ${k}`, n, true)),
      ...causes(a.checks).map(([k, n]) => row(`failed check: ${k}`, n, true)),
    ],
    note: a.errors ? `${count(a.errors)} errors, each request counted once.` : 'No errors.',
  };
}

export function account(b: BenchResult): Sheet {
  const a = b.account;
  const row = (what: string, n: number, why: string) => [cell(what), cell(count(n), n), cell(why)];
  const lost = unaccounted(a);
  return {
    title: 'What became of every request', head: ['', 'requests', ' '],
    rows: [
      row('due', a.due, 'by the schedule'), row('− dropped', a.dropped, 'as many as may wait were waiting'), row('− unsent', a.unsent, 'still waiting for a connection at the end'), row('= sent', a.sent, ''),
      row('− failed', total(a.failed), causes(a.failed).map(([k, n]) => `${k} ${count(n)}`).join(', ')), row('− cut off', a.cut_off, 'under way at the end'), row('= answered', a.answered, 'with a whole answer of any status'),
    ],
    note: lost ? `The account does not close: ${count(lost)} requests are missing${b.end == null ? ', as it is still being made' : ''}.` : 'The account closes: no request is lost without being counted.',
  };
}

export function generator(b: BenchResult): Sheet {
  const g = b.generator;
  const row = (what: string, text: string, why: string) => [cell(what), cell(text), cell(why)];
  return {
    title: 'The generator itself', head: ['', 'seen', ' '],
    rows: [
      row('late, p99', value(quantile(g.late, '0.99')), 'sent after it was due although a connection was free: its own error'),
      row('late, max', value(g.late.max), ''),
      row('blocked, p99', value(quantile(g.blocked, '0.99')), 'waited for a connection: the target’s doing'),
      row('CPU per request', value(g.cpu_per_request), g.cpu_seconds == null ? '' : `${value(g.cpu_seconds)} in all, ${g.cores?.toFixed(2) ?? missing} cores busy`),
      row('busiest thread', percent(g.busiest), g.loops ? `of ${count(g.loops)} that send` : 'of its time'),
      row('the machine', percent(g.host), 'of its cores were busy'),
    ],
    note: b.valid ? 'It kept its schedule.' : 'It did not keep its schedule.',
  };
}

export function loads(list: BenchLoad[]): Sheet {
  return {
    title: 'Data loaded before', head: ['', 'documents', 'took', 'rate', 'bytes', 'batches', 'failed', 'batch p50', 'batch p99'],
    rows: list.map((l) => [
      cell(l.name), cell(count(l.documents), l.documents), cell(value(l.seconds), l.seconds), cell(perSecond(l.rate), l.rate), cell(value(l.bytes, 'bytes'), l.bytes), cell(count(l.batches), l.batches), cell(count(l.errors), l.errors, { bad: l.errors > 0 }),
      ...['0.5', '0.99'].map((k) => cell(value(quantile(l.latency, k)), quantile(l.latency, k))),
    ]),
  };
}

export const warmUpText = (w: BenchWarmUp | undefined) => (w ? `${w.steady ? 'Steady' : 'Not steady'} after ${value(w.seconds)} and ${count(w.requests)} requests${w.why ? `: ${w.why}` : ''}` : '');

/** Whether a recorded configuration is one short line, such as a variable's value. */
export const isLine = (text: string) => text.length < 200 && !text.includes('\n');

export function environment(e: Environment | undefined): Sheet {
  const rows: [string, string][] = !e ? [] : [
    ['machine', [e.host, e.cpu, e.cores ? `${e.cores} cores` : '', e.memory ? value(e.memory, 'bytes') : ''].filter(Boolean).join(', ')],
    ['system', [e.os, e.kernel].filter(Boolean).join(', ')], ['tailscope', [e.version, e.go].filter(Boolean).join(', ')], ['git commit', e.commit], ...Object.entries(e.versions), ...Object.entries(e.configuration).filter(([, v]) => isLine(v)),
  ];
  return { title: 'Environment', head: ['', ' '], rows: rows.filter(([, v]) => v).map(([k, v]) => [cell(k), cell(v)]) };
}

/** A reading on the slots of the time line: the mean of what lies in each. */
export function onSlots(slots: BenchSlot[], times: Num[], values: Num[]): Num[] {
  return slots.map((s) => {
    const from = s.time ?? 0;
    const own = times.flatMap((t, i) => (t != null && t >= from && t < from + (s.width ?? 1) && values[i] != null ? [values[i] as number] : []));
    return own.length ? own.reduce((a, b) => a + b, 0) / own.length : null;
  });
}

const kinds: Record<string, string> = { phase: 'phases', fault: 'faults', warm_up: 'warm-up', load: 'loading', server: 'servers', command: 'commands', abort: 'aborted' };

/** What happened, by kind, as bars under the time line; phases come first, then faults. */
export function eventRows(events: BenchEvent[]): { name: string; of: { start: Num; end: Num; said: string; missed?: boolean }[] }[] {
  return Object.entries(kinds).map(([kind, name]) => ({
    name, of: events.filter((e) => e.kind === kind).map((e) => ({ start: e.time, end: e.end ?? e.time, said: [e.name, e.text].filter(Boolean).join(': '), missed: e.failed || kind === 'fault' || kind === 'abort' })),
  }));
}

export const benchSheets = (b: BenchResult): Sheet[] => [clocks(b), thresholds(b), queries(b), tenants(b), phases(b), errors(b), account(b), generator(b), loads(b.loads), environment(b.environment)];
