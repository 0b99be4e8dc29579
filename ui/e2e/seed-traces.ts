// Traces with everything a waterfall shows: two services whose clocks disagree,
// a failed statement, what outlives its parent, and one of thousands of spans;
// and, a day earlier, requests for today's to be laid over.

import type { Seed } from './seed';

export interface Traces {
  service: string;
  peer: string;
  start: number;
  end: number;
  /** Requests of each minute: of 100 ms to 199 ms, and a day before twice as long. */
  requests: number;
  failed: string; // trace ids
  skewed: string;
  large: string;
  spans: number; // of the large one
  counter: string;
  /** Of pools a and b: 10 and 20, the day before 15 and 25. */
  gauge: string;
}

export const perMinute = 4;
const minutes = 20;
const hex = (n: number, width: number) => n.toString(16).padStart(width, '0');
const text = (key: string, value: string) => ({ key, value: { stringValue: value } });

export async function seedTraces(base: string, s: Seed): Promise<Traces> {
  const status = await (await fetch(`${base}/api/v1/status`)).json();
  const tag = hex(Date.now() % 0xffffff, 6);
  const start = s.end - minutes * 60;
  const out: Traces = { service: `trace-test-${tag}`, peer: `peer-test-${tag}`, start, end: s.end, requests: minutes * perMinute, failed: '', skewed: '', large: '', spans: 3001, counter: 'trace_test_cpu_seconds_total', gauge: 'trace_test_open' };
  let id = Date.now() % 0xffffffff;
  const own: object[] = [];
  const peer: object[] = [];
  const trace = () => hex(Date.now() % 0xffffffff, 16) + hex(++id, 16);
  const span = (to: object[], traceId: string, parent: string, name: string, kind: number, at: bigint, from: number, until: number, more: { attributes?: object[]; failed?: boolean } = {}): string => {
    const spanId = hex(++id, 16);
    const nano = (ms: number) => String(at + BigInt(Math.round(ms * 1e6)));
    to.push({ traceId, spanId, parentSpanId: parent, name, kind, startTimeUnixNano: nano(from), endTimeUnixNano: nano(until), attributes: more.attributes ?? [], status: more.failed ? { code: 2, message: 'it broke' } : {} });
    return spanId;
  };
  const db = (query: string) => ({ attributes: [text('db.system.name', 'postgresql'), text('db.query.text', query)] });
  const get = { attributes: [text('http.request.method', 'GET'), text('http.route', '/things/{id}'), text('tenant.id', 'acme')] };
  for (let minute = 0; minute < minutes; minute++) {
    for (let k = 0; k < perMinute; k++) {
      const at = BigInt(start + minute * 60 + k * 15) * 1_000_000_000n;
      const long = 100 + ((minute * perMinute + k) * 37) % 100;
      const t = trace();
      const root = span(own, t, '', 'GET /things/{id}', 2, at, 0, long, get);
      span(own, t, root, 'SELECT things', 3, at, 10, 60, db('SELECT * FROM things WHERE id = 42 AND name = \'secret\''));
      const before = trace();
      const old = span(own, before, '', 'GET /things/{id}', 2, at - 86_400_000_000_000n, 0, 2 * long, get);
      span(own, before, old, 'SELECT things', 3, at - 86_400_000_000_000n, 20, 120, db('SELECT * FROM things WHERE id = 42'));
    }
  }
  const at = (n: number) => BigInt(start + 300) * 1_000_000_000n + BigInt(n) * 2_000_000_000n + 500_000_000n;
  // Failed, and with an asynchronous child.
  out.failed = trace();
  const a = span(own, out.failed, '', 'POST /things', 2, at(1), 0, 400, { attributes: [text('http.request.method', 'POST'), text('http.route', '/things')], failed: true });
  span(own, out.failed, a, 'INSERT things', 3, at(1), 20, 320, { ...db('INSERT INTO things (name) VALUES (\'secret\')'), failed: true });
  span(own, out.failed, a, 'tell others', 1, at(1), 350, 700);
  // The peer's clock is 80 ms ahead: its span lies outside of the call that caused it.
  out.skewed = trace();
  const b = span(own, out.skewed, '', 'GET /skewed', 2, at(2), 0, 300, { attributes: [text('http.request.method', 'GET'), text('http.route', '/skewed')] });
  const call = span(own, out.skewed, b, 'GET', 3, at(2), 50, 150, { attributes: [text('http.request.method', 'GET'), text('server.address', 'peer')] });
  span(peer, out.skewed, call, 'GET /inner', 2, at(2), 140, 220, { attributes: [text('http.request.method', 'GET'), text('http.route', '/inner')] });
  // Thousands of spans.
  out.large = trace();
  const c = span(own, out.large, '', 'GET /large', 2, at(3), 0, 900, { attributes: [text('http.request.method', 'GET'), text('http.route', '/large')] });
  for (let i = 0; i < out.spans - 1; i++) span(own, out.large, c, `part ${i % 10}`, 1, at(3), (i * 890) / out.spans, (i * 890) / out.spans + 0.2);
  out.requests += 3;

  const resource = (service: string, spans: object[]) => ({ resource: { attributes: [text('service.name', service), text('service.instance.id', 'a')] }, scopeSpans: [{ spans }] });
  await post(`http://${status.otlp_http}/v1/traces`, { resourceSpans: [resource(out.service, own), resource(out.peer, peer)] });
  // A counter of CPU seconds: 0.6 s each minute.
  const points = Array.from({ length: minutes + 1 }, (_, i) => ({ startTimeUnixNano: String(BigInt(start) * 1_000_000_000n), timeUnixNano: String(BigInt(start + i * 60) * 1_000_000_000n), asDouble: 0.6 * i }));
  const open = [['a', 10], ['b', 20]].flatMap(([pool, n]) => Array.from({ length: minutes }, (_, i) => start + 30 + i * 60).flatMap((at) => [[at, 0], [at - 86400, 5]].map(([t, more]) => (
    { timeUnixNano: String(BigInt(t) * 1_000_000_000n), asDouble: Number(n) + more, attributes: [text('pool', String(pool))] }))));
  await post(`http://${status.otlp_http}/v1/metrics`, {
    resourceMetrics: [{ resource: { attributes: [text('service.name', out.service)] }, scopeMetrics: [{ metrics: [{ name: 'trace_test.cpu', unit: 's', sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: points } }, { name: 'trace_test.open', gauge: { dataPoints: open } }] }] }],
  });
  await kept(base, out);
  return out;
}

async function post(url: string, body: object): Promise<void> {
  const res = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!res.ok) throw new Error(`sending to ${url}: ${res.status} ${await res.text()}`);
}

async function kept(base: string, t: Traces): Promise<void> {
  const match = encodeURIComponent(`{service="${t.service}"}`);
  let missing = '';
  for (let i = 0; i < 120; i++) {
    const answers = await Promise.all([t.failed, t.skewed, t.large].map(async (id) => ((await fetch(`${base}/api/v1/traces/${id}`)).ok ? '' : id)));
    const b = await (await fetch(`${base}/api/v1/breakdown?match=${match}&start=${t.start}&end=${t.end}`)).json();
    missing = answers.filter(Boolean).map((id) => `trace ${id} is not kept; `).join('');
    if (!missing && b.total === t.requests) return;
    missing += `the breakdown has ${b.total} of ${t.requests} requests`;
    await new Promise((r) => setTimeout(r, 500));
  }
  throw new Error(`after a minute ${missing}`);
}
