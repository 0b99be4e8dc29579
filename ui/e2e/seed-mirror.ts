// A session whose figures are known: the candidate takes 0.8 times as long for
// carts, as long for searches, 1.3 times as long for exports; control and primary
// are the same code. Its observations are sent as OTLP, as a mirror sends them,
// and its state as the program that runs it reports it.

import type { Seed } from './seed';
import { random, text } from './seed-compare';

export interface Mirrored {
  id: string;
  running: string; // another, which has no end
  service: string;
  start: number;
  end: number;
  requests: number;
}

export const ratios: Record<string, number> = { 'GET /cart/{id}': 0.8, 'GET /search': 1, 'GET /export': 1.3 };
const base: Record<string, number> = { 'GET /cart/{id}': 0.02, 'GET /search': 0.06, 'GET /export': 0.3 };
const share: Record<string, number> = { 'GET /cart/{id}': 12, 'GET /search': 6, 'GET /export': 2 };
const tenants = ['acme', 'birch', 'cedar'];
const slots = 120;

/** An exponential histogram of scale 5, OpenTelemetry's data model. */
function exponential(values: number[]) {
  const at = values.map((v) => Math.ceil(Math.log2(v) * 32) - 1);
  const offset = Math.min(...at);
  const bucketCounts = new Array<number>(Math.max(...at) - offset + 1).fill(0);
  for (const i of at) bucketCounts[i - offset]++;
  return { count: String(values.length), sum: values.reduce((a, b) => a + b, 0), scale: 5, zeroCount: '0', positive: { offset, bucketCounts: bucketCounts.map(String) } };
}

async function send<T>(method: string, url: string, body: unknown): Promise<T> {
  const res = await fetch(url, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!res.ok) throw new Error(`${method} ${url}: ${res.status} ${await res.text()}`);
  return res.json();
}

/** What the program of the session would report: all sums close. */
export function report(name: string, service: string, start: number, requests: number, ended: boolean, applied = 0) {
  const chosen = requests - Math.floor(requests / 20);
  const account = (lostTo: Record<string, number>, failed: Record<string, number>, now: number) => {
    const offered = chosen;
    const queued = now;
    const dropped = Object.values(lostTo).reduce((a, b) => a + b, 0);
    const mirrored = offered - queued - dropped;
    const waiting = 2 * now;
    const answered = mirrored - waiting - Object.values(failed).reduce((a, b) => a + b, 0);
    return { offered, queued, dropped: lostTo, mirrored, waiting, failed, answered, pairing: now, paired: answered - now - 4, unpaired: 4, buffered: 48_000 * (now + 1), buffer_bound: 16 << 20 };
  };
  const now = ended ? 0 : 3;
  const server = (url: string, connections: number, down = '') => ({ url, connections, ...(down ? { down } : {}) });
  return {
    kind: 'mirror', name, service, start, ended,
    mirror: {
      mode: 'http', listen: ':8080', requests, skipped: { unsafe: Math.floor(requests / 20) }, failed: { reset: 4 }, applied,
      settings: { share: 1, paused: false },
      primary: { name: 'primary', role: 'primary', servers: [server('http://10.0.0.1:8081', 16)], using: 1, amplify: 1, diverged: null },
      shadows: [
        { name: 'control', role: 'control', servers: [server('http://10.0.0.2:8081', 16)], using: 1, amplify: 1, diverged: null, account: account({}, {}, now) },
        {
          name: 'candidate', role: 'candidate', using: 2, amplify: 1, diverged: null,
          servers: [server('http://10.0.1.1:8082', 8), server('http://10.0.1.2:8082', 8, 'connection refused'), server('http://10.0.1.3:8082', 0)],
          account: account({ queue_full: 11, refused: 6 }, { timed_out: 7, reset: 2 }, now),
        },
      ],
      differences: {
        compared: 900, skipped: { too_long: 3 },
        rows: [
          { shadow: 'candidate', operation: 'GET /cart/{id}', place: 'body .items[].price', compared: 540, raw: 108, noise: 0, noise_of: 540, p: 1e-9, real: true },
          { shadow: 'candidate', operation: 'GET /search', place: 'header x-request-id', compared: 270, raw: 270, noise: 270, noise_of: 270, p: 1, real: false },
        ],
        examples: [{
          id: '00000000000000a7', time: start + 60, shadow: 'candidate', operation: 'GET /cart/{id}', tenant: 'acme', request: 'GET /cart/17?token=redacted-0a1b2c3d4e',
          places: [{ place: 'body .items[].price', reference: '12.50', shadow: '12.5' }, { place: 'header set-cookie', reference: 'sid=redacted-0a1b2c3d4e', shadow: 'sid=redacted-ffeeddccbb' }],
        }],
      },
      recording: { path: '/var/lib/mirror/session.tsrec', requests: 940, dropped: 0, bytes: 182_000 },
    },
  };
}

export async function seedMirror(server: string, s: Pick<Seed, 'service' | 'end'>): Promise<Mirrored> {
  const status = await (await fetch(`${server}/api/v1/status`)).json();
  const next = random(5);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const end = s.end;
  const start = end - slots * 10;
  const id = s.service.replace('page-test', 'mirror-test');
  const out: Mirrored = { id, running: `${id}-live`, service: id, start, end, requests: 0 };
  await send('PUT', `${server}/api/v1/sessions/${id}`, report('new cache', id, start, 1000, false));
  for (let from = 0; from < slots; from += 20) {
    const durations: unknown[] = [];
    const perRequest: unknown[] = [];
    for (let slot = from; slot < from + 20; slot++) {
      const begun = BigInt(start + slot * 10) * 1_000_000_000n;
      const busy = Math.exp(0.15 * normal());
      for (const operation of Object.keys(ratios)) for (const tenant of tenants) {
        const times: Record<string, number[]> = { primary: [], control: [], candidate: [] };
        const pairs: Record<string, number[]> = { 'candidate control': [], 'candidate primary': [], 'control primary': [] };
        for (let k = 0; k < share[operation]; k++) {
          const request = base[operation] * busy * Math.exp(0.6 * normal());
          const took = { primary: request * Math.exp(0.05 * normal()), control: request * Math.exp(0.05 * normal()), candidate: request * ratios[operation] * Math.exp(0.05 * normal()) };
          for (const [variant, t] of Object.entries(took)) times[variant].push(t);
          for (const pair of Object.keys(pairs)) {
            const [a, b] = pair.split(' ') as ['candidate', 'control'];
            pairs[pair].push(took[a] / took[b]);
          }
          out.requests++;
        }
        const point = (values: number[], more: Record<string, string>) => ({
          ...exponential(values), startTimeUnixNano: String(begun), timeUnixNano: String(begun + 5_000_000_000n),
          attributes: Object.entries({ experiment: id, operation, tenant, status: 'ok', ...more }).map(([k, v]) => text(k, v)),
        });
        for (const [variant, values] of Object.entries(times)) durations.push(point(values, { variant }));
        for (const [pair, values] of Object.entries(pairs)) perRequest.push(point(values, { variant: pair.split(' ')[0], against: pair.split(' ')[1] }));
      }
    }
    const histogram = (name: string, dataPoints: unknown[]) => ({ name, exponentialHistogram: { aggregationTemporality: 1, dataPoints } });
    await send('POST', `http://${status.otlp_http}/v1/metrics`, {
      resourceMetrics: [{ resource: { attributes: [text('service.name', id)] }, scopeMetrics: [{ metrics: [histogram('mirror_duration_seconds', durations), histogram('mirror_ratio', perRequest)] }] }],
    });
  }
  const match = encodeURIComponent(`{experiment="${id}",variant="candidate"}`);
  let seen = 0;
  for (let i = 0; i < 120 && seen !== out.requests; i++) {
    const d = await (await fetch(`${server}/api/v1/distribution?family=mirror_duration_seconds&match=${match}&start=${start}&end=${end}`)).json();
    seen = d.groups?.[0]?.count ?? 0;
    if (seen !== out.requests) await new Promise((r) => setTimeout(r, 500));
  }
  if (seen !== out.requests) throw new Error(`sent ${out.requests} requests of ${id}, but the server shows ${seen} after a minute`);
  await send('PUT', `${server}/api/v1/sessions/${id}`, report('new cache', id, start, out.requests, true));
  return out;
}

/** Reports a session that runs, and answers what its users want of it. */
export async function reportRunning(server: string, m: Mirrored, requests: number, applied = 0, share = 1): Promise<{ change?: { number: number; share?: number; stop?: boolean } }> {
  const r = report('more servers', m.service, m.start, requests, false, applied);
  r.mirror.settings.share = share;
  return send('PUT', `${server}/api/v1/sessions/${m.running}`, r);
}
