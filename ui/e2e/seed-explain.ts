// A service in which one tenant is slow for a while: three quarters of an hour
// of five tenants and three operations, of which one tenant's searches take
// twenty times as long in the middle third.

export interface ExplainSeed {
  service: string;
  start: number; // Unix seconds, whole minutes
  end: number;
  from: number;
  to: number;
  requests: number;
}

const minutes = 45;
const perMinute = 120;
export const slowTenant = 'tenant-slow';
const operations = ['GET /search', 'GET /cart', 'POST /order'];

const attribute = (key: string, value: string) => ({ key, value: { stringValue: value } });

/** Sends the data and waits until the server shows all of it. */
export async function seedExplain(base: string): Promise<ExplainSeed> {
  const status = await (await fetch(`${base}/api/v1/status`)).json();
  const now = Math.floor(status.now);
  const end = Math.floor(now / 60) * 60 - 120;
  const start = end - minutes * 60;
  const third = (minutes / 3) * 60;
  const out: ExplainSeed = { service: `explain-test-${(now % 0xffffff).toString(16)}`, start, end, from: start + third, to: start + 2 * third, requests: 0 };
  for (let minute = 0; minute < minutes; minute++) {
    const spans = [];
    for (let i = 0; i < perMinute; i++) {
      // Steps that share no factor with the counts spread labels and durations evenly.
      const n = minute * perMinute + i;
      const tenant = n % 5 === 0 ? slowTenant : `tenant-${n % 5}`;
      const operation = operations[(n + 2 * Math.floor(n / 5)) % 3];
      const slow = tenant === slowTenant && operation === operations[0] && minute >= minutes / 3 && minute < (2 * minutes) / 3;
      const seconds = (0.01 + 0.03 * (((n * 37 + minute * 11) % 101) / 101) ** 3) * (slow ? 20 : 1);
      const at = BigInt(start + minute * 60 + Math.floor((i * 60) / perMinute)) * 1_000_000_000n;
      spans.push({
        traceId: now.toString(16).padStart(16, '0') + n.toString(16).padStart(16, 'e'), spanId: (n + 1).toString(16).padStart(16, 'e'), name: operation, kind: 2,
        startTimeUnixNano: String(at), endTimeUnixNano: String(at + BigInt(Math.round(seconds * 1e9))),
        attributes: [attribute('http.request.method', operation.split(' ')[0]), attribute('http.route', operation.split(' ')[1]), attribute('tenant.id', tenant)],
      });
      out.requests++;
    }
    const body = { resourceSpans: [{ resource: { attributes: [attribute('service.name', out.service), attribute('service.instance.id', `pod-${minute % 2}`)] }, scopeSpans: [{ spans }] }] };
    const res = await fetch(`http://${status.otlp_http}/v1/traces`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    if (!res.ok) throw new Error(`sending spans: ${res.status} ${await res.text()}`);
  }
  const match = encodeURIComponent(`{service="${out.service}"}`);
  for (let i = 0; i < 120; i++) {
    const d = await (await fetch(`${base}/api/v1/distribution?match=${match}&start=${start}&end=${end}`)).json();
    if (d.groups?.[0]?.count === out.requests) return out;
    await new Promise((r) => setTimeout(r, 500));
  }
  throw new Error(`the server does not show all requests of ${out.service} after a minute`);
}
