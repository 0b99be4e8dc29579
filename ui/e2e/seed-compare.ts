// A known change: an hour of a service whose searches take 1.4 times as long
// after a mark in the middle, while its orders stay as they are.

import type { Seed } from './seed';

export interface Changed {
  service: string;
  start: number;
  end: number;
  mark: { id: string; name: string; time: number };
  /** By how much searches take longer after the mark. */
  ratio: number;
  requests: number;
}

const slots = 360;
const perSlot = 20;
const ratio = 1.4;

// Mulberry32: the same numbers at every run.
export function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const hex = (n: number, width: number) => n.toString(16).padStart(width, '0');
export const text = (key: string, value: string) => ({ key, value: { stringValue: value } });

async function post<T>(url: string, body: unknown): Promise<T> {
  const res = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!res.ok) throw new Error(`${url}: ${res.status} ${await res.text()}`);
  return res.json();
}

export async function seedCompare(base: string, s: Pick<Seed, 'service' | 'end'>): Promise<Changed> {
  const status = await (await fetch(`${base}/api/v1/status`)).json();
  const next = random(20);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const end = s.end;
  const start = end - slots * 10;
  const middle = start + (slots / 2) * 10;
  const out: Changed = { service: s.service.replace('page-test', 'compare-test'), start, end, mark: { id: '', name: 'new index', time: middle + 5 }, ratio, requests: 0 };
  const run = hex(Date.now(), 16);
  let id = 0x9000000;
  for (let from = 0; from < slots; from += 60) {
    const versions: Record<string, unknown[]> = { '1.0': [], '1.1': [] };
    for (let slot = from; slot < from + 60; slot++) {
      const later = start + slot * 10 >= middle;
      for (let k = 0; k < perSlot; k++) {
        const search = k % 2 === 0;
        const seconds = (search ? 0.04 * (later ? ratio : 1) : 0.12) * Math.exp((search ? 0.5 : 0.4) * normal());
        const failed = next() < 0.01;
        const operation = search ? 'GET /search' : 'POST /orders';
        const u = next();
        const endNano = BigInt(start + slot * 10) * 1_000_000_000n + BigInt(Math.floor(((k + 0.5) / perSlot) * 1e10));
        versions[later ? '1.1' : '1.0'].push({
          traceId: run + hex(++id, 16), spanId: hex(id, 16), name: operation, kind: 2,
          startTimeUnixNano: String(endNano - BigInt(Math.round(seconds * 1e9))), endTimeUnixNano: String(endNano),
          attributes: [
            text('http.request.method', operation.split(' ')[0]), text('http.route', operation.split(' ')[1]),
            text('tenant.id', u < 0.3 ? 'acme' : u < 0.5 ? 'birch' : `small-${Math.floor(u * 40)}`),
          ],
          status: failed ? { code: 2 } : {},
        });
        out.requests++;
      }
    }
    await post(`http://${status.otlp_http}/v1/traces`, {
      resourceSpans: Object.entries(versions).filter(([, spans]) => spans.length).map(([version, spans]) => ({
        resource: { attributes: [text('service.name', out.service), text('service.version', version), text('service.instance.id', 'a')] },
        scopeSpans: [{ spans }],
      })),
    });
  }
  out.mark.id = (await post<{ id: string }>(`${base}/api/v1/marks`, { name: out.mark.name, time: out.mark.time, service: out.service, revision: '1.1' })).id;
  const match = encodeURIComponent(`{service="${out.service}"}`);
  for (let i = 0; i < 120; i++) {
    const d = await (await fetch(`${base}/api/v1/distribution?match=${match}&start=${start}&end=${end}`)).json();
    if (d.groups?.[0]?.count === out.requests) return out;
    await new Promise((r) => setTimeout(r, 500));
  }
  throw new Error(`sent ${out.requests} requests of ${out.service}, but the server does not show them after a minute`);
}
