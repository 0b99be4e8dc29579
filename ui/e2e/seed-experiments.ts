// A run of load with a fault, one that does not count, and a sweep with its
// rounds, as the programs that make them report them. Figures are made by
// formulas with a seed, so that what the page says of them is known.

import { random } from './seed-compare';

export interface Tried {
  bench: string;
  invalid: string;
  experiment: string;
  running: string;
  service: string;
  start: number;
}

const quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/** A distribution of a log-normal body with a share of slow ones. */
export function latency(count: number, median: number, slow = 0, slowest = 0.9, buckets = false) {
  const bounds: number[] = [];
  for (let b = median / 8; b < Math.max(slowest, median * 40); b *= 2 ** 0.25) bounds.push(Number(b.toPrecision(6)));
  const body = (v: number) => 1 / (1 + Math.exp(-3 * Math.log(v / median)));
  const at = (v: number) => (1 - slow) * body(v) + slow * Math.min(1, v / slowest);
  const counts = bounds.slice(1).map((b, i) => Math.round(count * (at(b) - at(bounds[i]))));
  const find = (q: number) => {
    let [low, high] = [bounds[0], bounds[bounds.length - 1]];
    for (let i = 0; i < 60; i++) {
      const mid = Math.sqrt(low * high);
      if (at(mid) < q) low = mid;
      else high = mid;
    }
    return Number(low.toPrecision(5));
  };
  const out = { count, mean: Number((median * 1.2 + (slow * slowest) / 2).toPrecision(5)), min: Number((median / 6).toPrecision(4)), max: Number((slow ? slowest : find(0.99999)).toPrecision(5)), quantiles: Object.fromEntries(quantiles.map((q) => [String(q), find(q)])), error: 0.011 };
  return buckets ? { ...out, bounds, counts } : out;
}
const environment = {
  host: 'bench-1', os: 'Debian GNU/Linux 12', kernel: '6.1.0-18-amd64', cpu: 'AMD EPYC 7543', cores: 8, memory: 33_554_432_000, go: 'go1.25.1', version: '1.7.0', commit: '69ebd2c+',
  versions: { nginx: 'nginx version: nginx/1.22.1' }, configuration: { 'nginx.conf': 'worker_processes 8;\nevents { worker_connections 1024; }\n' },
};

/** 60 s at 500/s, in which the target is paused for one second at 30 s. */
export function benchReport(service: string, start: number, valid: boolean) {
  const slots = 60;
  const due = 500;
  const sent = slots * due;
  const next = random(7);
  const failed = { timeout: 3, reset: 2 };
  const cut = 4;
  const answered = sent - 5 - cut;
  const whole = latency(answered, 0.012, 0.017, 1.02, true);
  const uncorrected = latency(answered, 0.0118, 0.0004, 1.01, true);
  const query = (name: string, share: number, median: number, errors: number) => ({
    name, sent: Math.round(sent * share), answered: Math.round(answered * share), errors, bytes: Math.round(4200 * sent * share), statuses: { 200: Math.round(answered * share) - errors, ...(errors ? { 503: errors } : {}) }, checks: {},
    latency: latency(Math.round(answered * share), median, 0.017, 1.02), uncorrected: latency(Math.round(answered * share), median, 0.0004, 1.01),
  });
  const name = valid ? 'search at 500/s' : 'search at 90,000/s';
  const phase = (n: string, from: number, to: number, a: number, b: number) => ({ name: n, start: from, end: to, from: a, to: b, due: (to - from) * ((a + b) / 2), answered: (to - from) * ((a + b) / 2), errors: 0, latency: latency(9000, 0.012, n === 'steady' ? 0.03 : 0, 1.02), uncorrected: latency(9000, 0.012) });
  return {
    kind: 'bench', name, service, start, ended: true,
    bench: {
      format: 1, name, target: 'http://127.0.0.1:8983', service, variant: 'docs4', command: 'tailscope bench search.yaml --rate 500 --for 60s --set variant=docs4', start, end: start + slots, seed: 20_251_121,
      plan: { arrivals: 'poisson', protocol: 'HTTP/1.1', tls: true, connections: 64, timeout: 10, duration: 60 }, environment,
      account: { due: sent + 3, sent, answered, dropped: 2, unsent: 1, cut_off: cut, failed, statuses: { 200: answered - 41, 503: 41 }, checks: { 'json numFound': 7 }, errors: 53 },
      asked: 500, rate: answered / slots, latency: whole, uncorrected, first_byte: latency(answered, 0.009), bytes: 126_000_000,
      queries: [query('term', 0.5, 0.008, 0), query('facet', 0.3, 0.021, 0), query('wildcard', 0.2, 0.034, 41)], tenants: [query('acme', 0.6, 0.011, 11), query('birch', 0.4, 0.013, 30)],
      phases: [phase('ramp', 0, 20, 200, 500), phase('steady', 20, 60, 500, 500)],
      timeline: Array.from({ length: slots }, (_, i) => {
        const frozen = i === 30;
        const noise = 1 + 0.1 * (next() - 0.5);
        return { time: start + i, width: 1, due, answered: frozen ? 3 : i === 31 ? 2 * due - 3 : due, errors: i === 30 ? 5 : 0, waiting: frozen ? 433 : 0, p50: (frozen ? 0.5 : 0.012) * noise, p99: (frozen ? 0.99 : 0.061) * noise, max: frozen ? 1.02 : 0.09 * noise, late: valid ? 0.0002 : 0.31 };
      }),
      events: [
        { time: start - 12, end: start, kind: 'warm_up', name: 'warm-up' }, { time: start, end: start + 20, kind: 'phase', name: 'ramp' }, { time: start + 20, end: start + 60, kind: 'phase', name: 'steady' },
        { time: start + 30, end: start + 31, kind: 'fault', name: 'pause solr', text: 'SIGSTOP for 1 s' },
      ],
      thresholds: [{ text: 'p(99) < 300ms', value: whole.quantiles['0.99'], met: whole.quantiles['0.99'] < 0.3 }, { text: 'errors < 1%', value: 53 / sent, met: true }, { text: 'rate > 450/s', value: answered / slots, met: true }],
      resources: [
        { process: 'solr', name: 'cpu_cores', unit: '', times: Array.from({ length: slots }, (_, i) => start + i + 0.5), values: Array.from({ length: slots }, (_, i) => (i === 30 ? 0 : 3.1 + next() * 0.4)), per_request: 0.0065, mean: 3.2, max: 3.5 },
        { process: 'solr', name: 'resident_bytes', unit: 'bytes', times: Array.from({ length: slots }, (_, i) => start + i + 0.5), values: Array.from({ length: slots }, (_, i) => 2.1e9 + i * 1e6), per_request: null, mean: 2.13e9, max: 2.16e9 },
      ],
      loads: [{ name: 'documents', documents: 200_000, bytes: 412_000_000, batches: 200, errors: 0, seconds: 31.2, rate: 6410, latency: latency(200, 0.6) }],
      warm_up: { seconds: 12, requests: 6000, steady: true, why: 'p50 and p99 of the last 6 slots differ by 1.2 % from the 6 before, less than 3 %' },
      generator: { cpu_seconds: 0.42, cpu_per_request: 0.000014, cores: 0.007, loops: 1, busiest: 0.11, late: latency(sent, valid ? 0.00004 : 0.2), blocked: latency(sent, 0.0001, 0.017, 1), host: 0.43 },
      valid, invalid: valid ? [] : ['p99 of late sends is 310 ms, more than 10 ms', 'its one thread was busy 100 % of the time; use --threads 2'],
      headline: valid ? 'p99 621 ms at 500 requests/s, of which 1.7 % waited for a pause of the target' : 'p99 1.2 s at 61,000 of 90,000 requests/s',
    },
  };
}

const workers = [1, 2, 4, 8, 24];
const truth: Record<number, number> = { 1: 0.031, 2: 0.0142, 4: 0.0096, 8: 0.0098, 24: 0.0131 };

/** A sweep over workers, whose best are 4 and 8. */
export function experimentReport(service: string, start: number, done: number, ended: boolean, restored = true) {
  const next = random(11);
  const name = (w: number) => `workers=${w}`;
  const queries = ['', 'small', 'large'];
  const rounds = Array.from({ length: done }, (_, r) => r).flatMap((r) => [...workers].sort((a, b) => Math.sin(a * 7 + r) - Math.sin(b * 7 + r)).map((w, order) => {
    const valid = !(r === 2 && w === 1);
    const busy = 1 + 0.08 * (next() - 0.5);
    const p99 = truth[w] * busy * (valid ? 1 : 2.4);
    const figures = Object.fromEntries(queries.map((q, i) => [q, { p50: (p99 / 4) * (1 + 0.3 * i), p95: (p99 / 1.6) * (1 + 0.3 * i), p99: p99 * (1 + 0.3 * i) * (1 + 0.03 * (next() - 0.5)), mean: p99 / 3, errors: w === 1 ? 0.002 : 0, rate: 999.8 }]));
    return { round: r + 1, order: order + 1, setting: name(w), start: start + r * 100 + order * 20, end: start + r * 100 + order * 20 + 15, valid, ...(valid ? {} : { why: 'the generator was late: p99 of late sends 41 ms' }), warm_up: { seconds: 4, requests: 4000, steady: true, why: 'steady within 3 %' }, figures };
  }));
  const verdict = (e: number) => (e * 0.96 > 1 ? 'slower' : e * 1.04 < 1 ? 'faster' : 'no evidence');
  const measure = (m: string, w: number, i: number) => {
    const effect = truth[w] / truth[8];
    return { name: m, control: truth[8] * (1 + 0.3 * i), variant: truth[w] * (1 + 0.3 * i), effect, low: effect * 0.96, high: effect * 1.04, p: 0.0004, adjusted_p: 0.0011, verdict: verdict(effect), sentence: `${m} of ${name(w)} against ${name(8)}` };
  };
  const rows = ended || done > 3 ? workers.filter((w) => w !== 8).flatMap((w) => queries.map((query, i) => ({
    setting: name(w), ...(query ? { query } : {}), against: name(8), rounds: done - Number(w === 1), requests: 15_000 * done, verdict: verdict(truth[w] / truth[8]), lead: 'p99', measures: [measure('p50', w, i), measure('p99', w, i)],
  }))) : [];
  const curve = (query: string, i: number) => ({
    query, measure: 'p99', lower: true, points: workers.map((w) => ({ setting: name(w), x: w, value: truth[w] * (1 + 0.3 * i), low: truth[w] * (1 + 0.3 * i) * 0.965, high: truth[w] * (1 + 0.3 * i) * 1.04, best_in: w === 4 ? 0.67 : w === 8 ? 0.33 : 0 })),
    best: name(4), candidates: [name(4), name(8)], x_low: 4, x_high: 8, sentence: `p99${query ? ` of ${query}` : ''} is lowest at 4 workers (${(9.6 * (1 + 0.3 * i)).toFixed(1)} ms); 8 cannot be told from it.`,
  });
  return {
    kind: 'experiment', name: 'nginx workers', service, start, ended,
    experiment: {
      format: 1, name: 'nginx workers', hypothesis: 'more workers than cores only queue', service, design: 'sweep', variable: 'workers', unit: '', seed: 4711, start, end: ended ? start + done * 100 : null,
      settings: [8, 1, 2, 4, 24].map((w) => ({ name: name(w), control: w === 8, values: { workers: String(w), keepalive: '100' }, x: w })),
      stopping: { rule: 'precision', at_least: 6, at_most: 30, precision: 0.03, measure: 'p99', level: 0.95, planned: 12, done, why: ended ? 'half the width of the interval of p99 is 2.8 % after 12 rounds, 3 % was wanted' : 'six rounds say that 12 make the interval of p99 narrow enough' },
      environment, file: 'experiment: nginx workers\nhypothesis: more workers than cores only queue\nscenario: nginx.yaml\nvariable: workers\n', files: { 'nginx.yaml': 'scenario: nginx\ntarget: https://127.0.0.1:8443\n' }, command: `tailscope experiment again ${service}-experiment`,
      rounds, rows, curves: rows.length ? queries.map(curve) : [], loads: [], progress: ended ? '' : `round ${done + 1} of 12: workers=2, measuring, 9 s left`,
      events: [{ time: start, end: null, kind: 'command', name: 'apply workers=8', text: './reload.sh 8' }, { time: start + 40, end: null, kind: 'command', name: 'settle', text: '2 s' }, { time: start + 240, end: null, kind: 'command', name: 'apply workers=1', text: 'exit status 1, tried again', failed: true }],
      restored: ended && restored, ...(restored ? {} : { restore_error: './reload.sh 8: exit status 1' }), verdict: rows.length ? 'mixed' : '', warnings: [{ code: 'few_rounds', text: 'one round of workers=1 does not count, as the generator was late' }],
      headline: rows.length ? 'p99 is lowest at 4 workers (9.6 ms, 9.3–10 ms); 8 cannot be told from it, and 24 are 34 % slower than 8 (28–39 %)' : '',
    },
  };
}

export async function put(server: string, id: string, body: unknown): Promise<{ stop?: boolean }> {
  const res = await fetch(`${server}/api/v1/sessions/${id}`, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!res.ok) throw new Error(`PUT ${id}: ${res.status} ${await res.text()}`);
  return res.json();
}

export async function seedExperiments(server: string, s: { service: string; end: number }): Promise<Tried> {
  const service = s.service.replace('page-test', 'experiment-test');
  const start = s.end - 1500;
  const out: Tried = { bench: `${service}-bench`, invalid: `${service}-invalid`, experiment: `${service}-experiment`, running: `${service}-live`, service, start };
  await put(server, out.bench, benchReport(service, start, true));
  await put(server, out.invalid, benchReport(service, start, false));
  await put(server, `${out.experiment}-before`, experimentReport(service, start - 5000, 12, true, false));
  await put(server, out.experiment, experimentReport(service, start, 12, true));
  return out;
}
