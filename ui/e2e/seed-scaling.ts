// Searches for capacity and simulations, as the programs that make them report
// them. Figures are made by formulas with a seed, so that what the page says of
// them is known.

import { random } from './seed-compare';
import { latency, put } from './seed-experiments';

export interface Scaled {
  capacity: string;
  live: string;
  servers: string;
  nodes: string;
  split: string;
  service: string;
  start: number;
}

const environment = { host: 'bench-1', os: 'Debian GNU/Linux 12', kernel: '6.1.0-18-amd64', cpu: 'AMD EPYC 7543', cores: 8, memory: 33_554_432_000, go: 'go1.25.1', version: '1.8.0', commit: '69ebd2c', versions: {}, configuration: {} };
const generator = { cpu_seconds: 1.2, cpu_per_request: 0.00002, cores: 0.02, loops: 1, busiest: 0.2, late: latency(1000, 0.00004), blocked: latency(1000, 0.0001), host: 0.4 };

const most = 850; // requests a second at which p99 is 200 ms
const full = most + Math.log(100) / 0.2; // of one server whose service takes 1/full on average
const bounds = Array.from({ length: 97 }, (_, i) => Number((1e-4 * 2 ** (i / 6)).toPrecision(6)));
const objective = 'p99 < 200ms and errors < 0.1%';

/** A step at a rate against one exponential server: waiting and all, its time is exponential too. */
function step(x: number, rate: number, start: number, phase: string, next: () => number, more: Record<string, unknown> = {}, seconds = 10) {
  const over = rate >= full * 0.995;
  const mean = over ? 0.6 : 1 / (full - rate);
  const p99 = mean * Math.log(100);
  const answered = Math.min(rate, full * 0.99);
  const half = p99 * 0.04;
  const kept = p99 - half > 0.2 ? 'broken' : p99 + half < 0.2 ? 'kept' : 'unclear';
  const at = (v: number) => 1 - Math.exp(-v / mean);
  const slots = Array.from({ length: over ? 3 : seconds }, (_, i) => {
    const wobble = 1 + 0.25 * (next() - 0.5);
    return { time: i, width: 1, counts: bounds.slice(1).map((b, k) => Math.round(answered * (at(b / wobble) - at(bounds[k] / wobble)))), errors: 0 };
  });
  return {
    phase, x, asked: rate, rate: answered, start, end: start + slots.length, kept,
    objectives: [{ text: 'p99 < 200ms', value: p99, low: p99 - half, high: p99 + half, limit: 0.2, kept }, { text: 'errors < 0.1%', value: over ? 0.004 : 0, low: 0, high: over ? 0.008 : 0.0004, limit: 0.001, kept: over ? 'unclear' : 'kept' }],
    latency: { ...latency(Math.round(answered * slots.length), mean * 0.69), quantiles: { '0.5': mean * Math.LN2, '0.95': mean * Math.log(20), '0.99': p99 }, mean }, uncorrected: latency(Math.round(answered * slots.length), mean * 0.6),
    errors: over ? 0.004 : 0, concurrency: answered * mean, waited: over ? 0.15 : 0.0002, queued: mean - 1 / full, queued_by: 'Server-Timing', worked: 1 / full, cpu: Math.min(1, rate / full) * 3.9,
    resources: { 'shop resident_bytes': 2.1e8 + rate * 1e4 }, generator, valid: true, stopped_after: null, slots, ...(over ? { stopped: 'p99 is surely above 200 ms', stopped_after: 0.31 } : {}), ...more,
  };
}

const value = (v: number | null, share = 0.03) => ({ value: v, low: v == null ? null : v * (1 - share), high: v == null ? null : v * (1 + share) });

export function capacityReport(service: string, start: number, ended = true) {
  const next = random(23);
  const rates: [number, string][] = [[100, 'rise'], [200, 'rise'], [400, 'rise'], [800, 'rise'], [1131, 'rise'], [951, 'narrow'], [872, 'narrow'], [836, 'narrow'], [854, 'narrow'], [845, 'confirm'], [845, 'confirm']];
  const steps = rates.map(([x, phase], i) => step(x, x, start + i * 14, phase, next, i === 2 ? { valid: false, why: 'the generator was late: p99 of late sends 41 ms', kept: 'unclear' } : {}));
  const shown = ended ? steps : steps.slice(0, 5);
  const points = steps.filter((s) => s.rate! < full * 0.98).map((s) => ({ n: s.concurrency, rate: s.rate, mean: s.latency.mean, time: null, left: !s.valid, configuration: -1 }));
  return {
    kind: 'capacity', name: 'shop', service, start, ended,
    capacity: {
      format: 1, name: 'shop', service, target: 'http://127.0.0.1:8080/', command: `tailscope capacity http://127.0.0.1:8080/ --objective "${objective}"`, mode: 'rate', unit: 'requests/s', objective, arrivals: 'poisson', seed: 20_251_121,
      start, end: ended ? start + 160 : null, environment, bounds, steps: shown, events: [{ time: start, end: null, kind: 'phase', name: 'rise' }, { time: start + 70, end: null, kind: 'abort', name: 'step stopped', text: 'p99 is surely above 200 ms' }],
      ...(ended ? {
        answer: { value: 848, low: 836, high: 861, level: 0.95, rate: 848, limit: 'p99 < 200ms', sentence: 'p99 < 200ms is kept up to 848 requests/s (95 % interval 836–861)', next: 'run it again with --budget 10m to halve the interval' },
        law: {
          lambda: value(980, 0.02), sigma: value(0.92), kappa: value(0.00031, 0.4), peak_n: value(16.1, 0.2), peak_rate: value(868, 0.02), ceiling: value(null), level: 0.95, r2: 0.982, error: 11.4, highest: 40.2, points, source: 'steps',
          sentence: 'One request at a time reaches 980/s; 92 % of the work is done one at a time, and beyond 16 at a time throughput falls', warnings: ['the peak is at twice the lowest concurrency that was seen: take smaller steps there'],
        },
      } : {}),
      progress: ended ? '' : 'step 6: 951 requests/s, 4 s left of 10', restored: ended, verdict: ended ? 'found' : '', headline: ended ? 'p99 < 200ms is kept up to 848 requests/s (95 % interval 836–861)' : '',
      warnings: ended ? [{ code: 'step', text: 'one step does not count, as the generator was late' }] : [],
    },
  };
}

/** A pool that shrinks from eleven servers to three under a load that stays. */
export function serversReport(service: string, start: number) {
  const next = random(29);
  const steps = [11, 8, 6, 4, 3].map((n, i) => step(n, (700 * 3.7) / n, start + i * 30, 'shrink', next, { asked: 700, rate: 700 * (n > 3 ? 1 : 0.96), cpu: 7.4, queued: null, queued_by: undefined, waited: 0.0001, worked: 1 / (full - (700 * 3.7) / n || 1) }));
  return {
    kind: 'capacity', name: 'eleven to three', service, start, ended: true,
    capacity: {
      format: 1, name: 'eleven to three', service, target: 'candidate', command: 'tailscope capacity mirror --session=20260301-120000-5f1c0de5 --objective="p99 < 200ms" --servers=3..11', mode: 'servers', unit: 'servers', objective: 'p99 < 200ms', arrivals: 'live', seed: 7, start, end: start + 150, environment, bounds, steps,
      answer: { value: 4, low: 3, high: 4, level: 0.95, rate: 700, limit: 'p99 < 200ms', sentence: 'p99 < 200ms is kept by 4 servers and broken by 3' }, events: [], restored: false, restore_error: 'server 5 does not answer: connection refused', verdict: 'found', headline: 'p99 < 200ms is kept by 4 servers and broken by 3', warnings: [],
    },
  };
}

const shards = 16;

/** A few queries on nodes with threads, first come first served, each leaf taking what a seed draws. */
export function work(nodes: number, threads: number, queries: number, pause = false) {
  const next = random(nodes * 31 + threads);
  const free = Array.from({ length: nodes }, () => new Array<number>(threads).fill(0));
  const out: Record<string, unknown>[] = [];
  let t = 0;
  for (let q = 0; q < queries; q++) {
    t += -0.02 * Math.log(1 - next());
    let last = 0;
    for (let s = 0; s < shards; s++) {
      const node = s % nodes;
      const thread = free[node].indexOf(Math.min(...free[node]));
      const start = Math.max(t, free[node][thread]);
      const end = start + 0.004 - 0.003 * Math.log(1 - next());
      free[node][thread] = end;
      last = Math.max(last, end);
      out.push({ kind: s === 7 && q % 3 === 1 ? 'hedge' : 'leaf', query: q, shard: s, node, thread, ready: t, start, end });
    }
    out.push({ kind: 'merge', query: q, shard: -1, node: -1, thread: 0, ready: last, start: last, end: last + 0.001 });
  }
  if (pause) out.push({ kind: 'pause', query: -1, shard: -1, node: 1, thread: 0, ready: 0.05, start: 0.05, end: 0.09 });
  return out;
}

/** One layout: as many rounds as the fullest node needs, and waiting for them. */
function layout(nodes: number, curve: string, held: number, withWork: boolean) {
  const threads = 2;
  const per = Math.ceil(held / nodes);
  const rounds = Math.ceil(per / threads);
  const busy = (30 * held * 0.007 * (shards / held)) / (nodes * threads);
  const stable = busy < 1;
  const idle = (q: number) => (shards / held) * 0.004 * rounds + (shards / held) * 0.003 * Math.log((held * rounds) / -Math.log(q)) * Math.sqrt(rounds);
  const wait = 1 / (1 - Math.min(0.98, busy));
  const quantile = (q: number) => (stable ? value(idle(q) * wait, 0.015) : value(null));
  const qs = { '0.5': 0.5, '0.75': 0.75, '0.9': 0.9, '0.95': 0.95, '0.99': 0.99, '0.999': 0.999 };
  return {
    name: `${curve ? `${curve}, ` : ''}${nodes} ${nodes === 1 ? 'node' : 'nodes'}`, curve, x: nodes, nodes, shards: held, threads, cores: 2, rounds, per_node: per, rate: 30, queries: stable ? 100_000 : 0, cost: nodes * 0.4, cost_each: (nodes * 0.4) / 3600 / 30,
    stable, ...(stable ? {} : { why: `nodes would be busy ${Math.round(busy * 100)} % of the time` }), mean: stable ? value(idle(0.55) * wait, 0.01) : value(null),
    quantiles: Object.fromEntries(Object.entries(qs).map(([k, q]) => [k, quantile(q)])), no_queue: Object.fromEntries(Object.entries(qs).map(([k, q]) => [k, idle(q)])), leaf: stable ? { '0.5': 0.006, '0.99': 0.02 } : {},
    waiting: stable ? 0.007 * (wait - 1) : null, straggler: stable ? 1.8 : null, merge: stable ? 0.0011 : null, utilisation: stable ? busy : null, busiest: stable ? Math.min(1, (busy * per * nodes) / held) : null, aggregator: stable ? 0.03 : null, hedged: 0, cached: 0,
    ...(withWork ? { work: work(nodes, threads, 14, nodes === 4) } : {}),
  };
}

export function simulationReport(service: string, start: number, both: boolean) {
  const nodes = Array.from({ length: 16 }, (_, i) => i + 1);
  const layouts = both
    ? [...nodes.map((n) => layout(n, 'binary', 16, n === 4)), ...nodes.map((n) => layout(n, 'arbitrary', n * Math.ceil(16 / n), n === 6))]
    : nodes.map((n) => layout(n, '', 16, n === 4 || n === 6));
  return {
    kind: 'simulation', name: both ? 'split of search' : 'search on more nodes', service, start, ended: true,
    simulation: {
      format: 1, name: both ? 'split of search' : 'search on more nodes', service, command: 'tailscope simulate search.yaml', file: 'simulate: search on more nodes\nleaves:\n  - from: {service: solr, since: 1h}\nlayout:\n  shards: 16\n  threads: 2\n  rate: 30\nvary: {nodes: 1..16}\n', seed: 1,
      start, end: start + 3, seconds: 2.7, variable: 'nodes',
      leaves: [{ class: 'GET /select', weight: 0.8, source: '122,814 requests of solr in 360 slots of 10 s', observations: 122_814, slots: 360, shards: 16, latency: latency(122_814, 0.006), together: 0.21 }, { class: 'facet', weight: 0.2, source: '30,703 requests of solr in 360 slots of 10 s', observations: 30_703, slots: 360, shards: 16, latency: latency(30_703, 0.011), together: 0.3 }],
      layouts, headline: 'p99 falls from 8 nodes on only at 16: between, a node still works on two rounds of leaves', warnings: [{ code: 'threads', text: 'one node has more threads than cores: its leaves slow each other' }],
    },
  };
}

export async function seedScaling(server: string, s: { service: string; end: number }): Promise<Scaled> {
  const service = s.service.replace('page-test', 'scale-test');
  const start = s.end - 1500;
  const out: Scaled = { capacity: `${service}-capacity`, live: `${service}-running`, servers: `${service}-servers`, nodes: `${service}-nodes`, split: `${service}-split`, service, start };
  await put(server, out.capacity, capacityReport(service, start));
  await put(server, out.servers, serversReport(service, start));
  await put(server, out.nodes, simulationReport(service, start, false));
  await put(server, out.split, simulationReport(service, start, true));
  return out;
}
