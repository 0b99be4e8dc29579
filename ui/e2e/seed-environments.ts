// Known environments: a cart in production, at 20 ms and from the middle on at 40 ms, and
// in staging, at 900 ms throughout. Each request asks one node of Riak, one in three MySQL
// as well, by the same operation.

import type { Seed } from './seed';

export interface Environments {
  service: string;
  start: number;
  end: number;
  /** Requests of each environment. */
  production: number;
  staging: number;
}

const perMinute = { production: 60, staging: 12 } as const;
const minutes = 50;

const text = (key: string, value: string) => ({ key, value: { stringValue: value } });
const hex = (n: number, width: number) => n.toString(16).padStart(width, '0');

export async function seedEnvironments(base: string, s: Seed): Promise<Environments> {
  const status = await (await fetch(`${base}/api/v1/status`)).json();
  const out: Environments = { service: s.service.replace('page-test', 'env-test'), start: s.start, end: s.end, production: 0, staging: 0 };
  const run = hex(Date.now(), 16); // another one each time the same server is sent them
  let id = 0x9000000;
  for (const environment of ['production', 'staging'] as const) {
    const spans: unknown[] = [];
    for (let minute = 0; minute < minutes; minute++) {
      for (let i = 0; i < perMinute[environment]; i++) {
        const n = out[environment]++;
        const at = BigInt(s.start + minute * 60) * 1_000_000_000n + (BigInt(i) * 60_000_000_000n) / BigInt(perMinute[environment]);
        const length = (environment === 'staging' ? 900 : minute < minutes / 2 ? 20 : 40) * (0.9 + 0.2 * ((n * 0.618) % 1));
        const traceId = run + hex(++id, 16);
        const root = hex(++id, 16);
        const span = (spanId: string, name: string, kind: number, until: number, attributes: unknown[], parentSpanId?: string) =>
          spans.push({ traceId, spanId, parentSpanId, name, kind, startTimeUnixNano: String(at), endTimeUnixNano: String(at + BigInt(Math.round(until * 1e6))), attributes });
        span(root, 'GET /cart', 2, length, [text('http.request.method', 'GET'), text('http.route', '/cart'), text('tenant.id', n % 3 ? 'acme' : 'globex')]);
        span(hex(++id, 16), 'get items', 3, length / 2, [text('db.system.name', 'riak'), text('server.address', `riak-${1 + (n % 2)}`)], root);
        if (n % 3 === 0) span(hex(++id, 16), 'get items', 3, length / 8, [text('db.system.name', 'mysql'), text('server.address', 'mysql-1')], root);
      }
    }
    const resource = { attributes: [text('service.name', out.service), text('deployment.environment.name', environment)] };
    const res = await fetch(`http://${status.otlp_http}/v1/traces`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ spans }] }] }),
    });
    if (!res.ok) throw new Error(`sending spans: ${res.status} ${await res.text()}`);
  }
  await seen(base, out);
  return out;
}

/** Waits until every request, and the breakdown of each, is there. */
async function seen(base: string, e: Environments): Promise<void> {
  const all = e.production + e.staging;
  let last = '';
  for (let i = 0; i < 120; i++) {
    const q = new URLSearchParams({ match: `{service="${e.service}",kind="server"}`, start: String(e.start), end: String(e.end) });
    const d = await (await fetch(`${base}/api/v1/distribution?${q}`)).json();
    q.set('match', `{service="${e.service}"}`);
    const b = await (await fetch(`${base}/api/v1/breakdown?${q}`)).json();
    last = `${d.groups?.[0]?.count ?? 0} requests and ${b.total ?? 0} breakdowns`;
    if (d.groups?.[0]?.count === all && b.total === all) return;
    await new Promise((done) => setTimeout(done, 1000));
  }
  throw new Error(`${last} of ${e.service} were seen, not ${all} of each`);
}
