// Known data: fifty minutes of a service with two populations and a tail, sent
// as OTLP JSON as any SDK could.

export interface Seed {
  service: string;
  start: number; // Unix seconds, whole minutes
  end: number;
  /** Server spans, which are the requests; as many client spans are beside them. */
  requests: number;
  errors: number;
  tenants: number;
  operations: Record<string, number>;
}

const perMinute = 200;
const minutes = 50;

/** The duration in seconds of the i-th request of a minute: 60 % near 6 ms, 36 % near 45 ms, 4 % from 0.2 to 0.9 s. */
export function duration(i: number, minute: number): number {
  const u = ((i * 37 + minute * 11) % perMinute) / perMinute;
  if (u < 0.6) return 0.004 + 0.004 * (u / 0.6);
  if (u < 0.96) return 0.04 + 0.01 * ((u - 0.6) / 0.36);
  return 0.2 + 0.7 * ((u - 0.96) / 0.04);
}

const names = ['GET /items', 'GET /items/{id}', 'POST /items'];
const tenantCount = 150;

function attribute(key: string, value: string) {
  return { key, value: { stringValue: value } };
}

function hex(n: number, width: number): string {
  return n.toString(16).padStart(width, '0');
}

/** Sends the data and waits until the server shows all of it. */
export async function seed(base: string): Promise<Seed> {
  const status = await (await fetch(`${base}/api/v1/status`)).json();
  if (!status.otlp_http) throw new Error(`${base} listens for no OTLP over HTTP, so nothing can be sent to it`);
  const now = Math.floor(status.now ?? Date.now() / 1000);
  const end = Math.floor(now / 600) * 600 - 300;
  const start = end - minutes * 60;
  const out: Seed = {
    service: `page-test-${hex(now % 0xffffff, 6)}`, start, end, requests: 0, errors: 0, tenants: tenantCount, operations: {},
  };
  for (let minute = 0; minute < minutes; minute++) {
    const spans = [];
    for (let i = 0; i < perMinute; i++) {
      const operation = names[i % 5 === 0 ? 2 : i % 2];
      const failed = i % 100 === 7;
      const seconds = duration(i, minute);
      const endNano = BigInt(start + minute * 60 + Math.floor((i * 60) / perMinute)) * 1_000_000_000n + 500_000_000n;
      const startNano = endNano - BigInt(Math.round(seconds * 1e9));
      const trace = hex(now, 16) + hex(minute * perMinute + i + 1, 16);
      const id = hex(minute * perMinute + i + 1, 16);
      const tenant = i % 3 === 0 ? 'acme' : `tenant-${String((minute * perMinute + i) % (tenantCount - 1)).padStart(3, '0')}`;
      spans.push({
        traceId: trace, spanId: id, name: operation, kind: 2, startTimeUnixNano: String(startNano), endTimeUnixNano: String(endNano),
        attributes: [
          attribute('http.request.method', operation.split(' ')[0]), attribute('http.route', operation.split(' ')[1]), attribute('tenant.id', tenant),
        ],
        status: failed ? { code: 2 } : {},
      });
      spans.push({
        traceId: trace, spanId: hex(0x1000000 + minute * perMinute + i, 16), parentSpanId: id, name: 'SELECT items', kind: 3,
        startTimeUnixNano: String(startNano), endTimeUnixNano: String(startNano + BigInt(Math.round(seconds * 4e8))),
        attributes: [attribute('db.system.name', 'sqlite'), attribute('db.query.text', 'SELECT * FROM items WHERE id = 7'), attribute('tenant.id', tenant)],
      });
      out.requests++;
      if (failed) out.errors++;
      out.operations[operation] = (out.operations[operation] ?? 0) + 1;
    }
    const body = {
      resourceSpans: [{
        resource: { attributes: [attribute('service.name', out.service), attribute('service.version', minute < 25 ? '1.8.0' : '1.8.1'), attribute('service.instance.id', 'a')] },
        scopeSpans: [{ spans }],
      }],
    };
    const res = await fetch(`http://${status.otlp_http}/v1/traces`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    if (!res.ok) throw new Error(`sending spans: ${res.status} ${await res.text()}`);
  }
  await sendMetrics(`http://${status.otlp_http}/v1/metrics`, out);
  await visible(base, out);
  return out;
}

/** The gauge and the histogram that are sent beside the spans; a histogram point has these counts. */
export const gaugeFamily = 'page_test_room_celsius';
export const histogramFamily = 'page_test_wait_seconds';
export const histogramCounts = [10, 60, 25, 5];

async function sendMetrics(url: string, s: Seed): Promise<void> {
  const gauge = [];
  const histogram = [];
  for (let minute = 0; minute < minutes; minute++) {
    const startTimeUnixNano = String(BigInt(s.start + minute * 60) * 1_000_000_000n);
    const timeUnixNano = String(BigInt(s.start + minute * 60 + 55) * 1_000_000_000n);
    gauge.push({ timeUnixNano, asDouble: 20 + minute / 10 });
    histogram.push({ startTimeUnixNano, timeUnixNano, count: '100', sum: 2.5, bucketCounts: histogramCounts.map(String), explicitBounds: [0.01, 0.05, 0.2] });
  }
  const body = {
    resourceMetrics: [{
      resource: { attributes: [attribute('service.name', s.service)] },
      scopeMetrics: [{ metrics: [
        { name: 'page_test.room', unit: 'Cel', gauge: { dataPoints: gauge } },
        { name: 'page_test.wait', unit: 's', histogram: { aggregationTemporality: 1, dataPoints: histogram } },
      ] }],
    }],
  };
  const res = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!res.ok) throw new Error(`sending metrics: ${res.status} ${await res.text()}`);
}

async function visible(base: string, s: Seed): Promise<void> {
  const match = encodeURIComponent(`{service="${s.service}",kind="server"}`);
  let seen = 0;
  for (let i = 0; i < 120; i++) {
    const d = await (await fetch(`${base}/api/v1/distribution?match=${match}&start=${s.start}&end=${s.end}`)).json();
    seen = d.groups?.[0]?.count ?? 0;
    if (seen === s.requests) return;
    await new Promise((r) => setTimeout(r, 500));
  }
  throw new Error(`sent ${s.requests} requests of ${s.service}, but the server shows ${seen} after a minute`);
}
