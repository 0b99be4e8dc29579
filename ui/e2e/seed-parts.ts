// Known traces: a service of which one request in ten is slow, for known
// reasons. Fast ones ask the database once; slow ones ask it twenty times, save
// a line, charge a bank and wait for the slowest of three shards.

import type { Seed } from './seed';

export interface Parts {
  service: string;
  search: string; // the service with three instances
  start: number;
  end: number;
  requests: number;
  slow: number;
  /** Exclusive seconds by component, over all requests; queue lies before them. */
  seconds: Record<'app' | 'db' | 'external' | 'queue', number>;
  /** Seconds of saving alone. */
  save: number;
}

const perMinute = 40;
const minutes = 50;
const selects = 20;

type Value = { stringValue: string } | { arrayValue: { values: { stringValue: string }[] } };
const text = (key: string, value: string) => ({ key, value: { stringValue: value } as Value });
const hex = (n: number, width: number) => n.toString(16).padStart(width, '0');

interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Value }[];
}

export async function seedParts(base: string, s: Seed): Promise<Parts> {
  const status = await (await fetch(`${base}/api/v1/status`)).json();
  const out: Parts = {
    service: s.service.replace('page-test', 'parts-test'), search: s.service.replace('page-test', 'shards-test'), start: s.start, end: s.end, requests: 0, slow: 0,
    seconds: { app: 0, db: 0, external: 0, queue: 0 }, save: 0,
  };
  const run = hex(Date.now(), 16); // another one each time the same server is sent them
  let id = 0x5000000;
  for (let minute = 0; minute < minutes; minute += 5) {
    const own: Span[] = [];
    const shards: Span[][] = [[], [], []];
    for (let k = 0; k < 5 * perMinute; k++) {
      const n = minute * perMinute + k;
      const at = BigInt(s.start + minute * 60) * 1_000_000_000n + BigInt(Math.floor(((k + 0.5) * 300) / (5 * perMinute))) * 1_000_000_000n;
      const traceId = run + hex(++id, 16);
      // Milliseconds after the request began.
      const add = (to: Span[], name: string, kind: number, parent: string | undefined, from: number, until: number, ...attributes: Span['attributes']): string => {
        const spanId = hex(++id, 16);
        to.push({ traceId, spanId, parentSpanId: parent, name, kind, startTimeUnixNano: String(at + BigInt(Math.round(from * 1e6))), endTimeUnixNano: String(at + BigInt(Math.round(until * 1e6))), attributes });
        return spanId;
      };
      const db = (query: string) => [text('db.system.name', 'postgresql'), text('db.query.text', query)];
      const slow = n % 10 === 9;
      const queued = slow ? 20 : 2;
      const length = slow ? 230 + (n % 100) : 10 + (n % 7) * 0.1;
      const micros = (at - BigInt(queued * 1e6)) / 1000n;
      const root = add(
        own, 'GET /basket/{id}', 2, undefined, 0, length, text('http.request.method', 'GET'), text('http.route', '/basket/{id}'),
        { key: 'http.request.header.x-request-start', value: { arrayValue: { values: [{ stringValue: `t=${micros}` }] } } },
      );
      out.requests++;
      out.seconds.queue += queued / 1e3;
      if (!slow) {
        add(own, 'SELECT items', 3, root, 1, 5, ...db('SELECT * FROM items WHERE id = 7'));
        out.seconds.db += 4e-3;
        out.seconds.app += (length - 4) / 1e3;
        continue;
      }
      out.slow++;
      for (let i = 0; i < selects; i++) add(own, 'SELECT items', 3, root, 5 + 8 * i, 13 + 8 * i, ...db(`SELECT * FROM items WHERE id = ${i}`));
      add(own, 'INSERT lines', 3, root, 165, 185, ...db('INSERT INTO lines (item) VALUES (1)'));
      add(own, 'POST', 3, root, 185, 195, text('http.request.method', 'POST'), text('server.address', 'bank.example'), text('url.full', 'https://bank.example/charge'));
      // The call of a shard is covered by the shard's own span, so it has no time of its own.
      [10, 12, 30].forEach((ms, shard) => {
        const call = add(own, 'GET', 3, root, 195, 195 + ms, text('http.request.method', 'GET'), text('server.address', 'shards.example'));
        add(shards[shard], 'GET /shard', 2, call, 195, 195 + ms, text('http.request.method', 'GET'), text('http.route', '/shard'));
      });
      out.seconds.db += (selects * 8 + 20) / 1e3;
      out.save += 20e-3;
      out.seconds.external += 10e-3;
      out.seconds.app += (length - 190) / 1e3;
    }
    const resource = (service: string, instance: string, spans: Span[]) => ({
      resource: { attributes: [text('service.name', service), text('service.instance.id', instance)] }, scopeSpans: [{ spans }],
    });
    const body = { resourceSpans: [resource(out.service, 'a', own), ...shards.map((spans, i) => resource(out.search, `shard-${i + 1}`, spans))] };
    const res = await fetch(`http://${status.otlp_http}/v1/traces`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    if (!res.ok) throw new Error(`sending traces: ${res.status} ${await res.text()}`);
  }
  await assembled(base, out);
  return out;
}

async function assembled(base: string, p: Parts): Promise<void> {
  const match = encodeURIComponent(`{service="${p.service}"}`);
  let seen = 0;
  for (let i = 0; i < 120; i++) {
    const b = await (await fetch(`${base}/api/v1/breakdown?match=${match}&start=${p.start}&end=${p.end}`)).json();
    seen = b.total ?? 0;
    if (seen === p.requests) return;
    await new Promise((r) => setTimeout(r, 500));
  }
  throw new Error(`sent ${p.requests} traces of ${p.service}, but the breakdown has ${seen} after a minute`);
}
