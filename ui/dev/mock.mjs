// A development stand-in for the server: plausible two-population data in the
// API's shapes, so that the page can be worked on without one. Never built in.
//
//   npm run mock            listens on 127.0.0.1:7098
//   TAILSCOPE_URL=http://127.0.0.1:7098 npm run dev
//
// MOCK=empty answers as a server without data; MOCK=error fails every query;
// MOCK_DELAY=800 answers that many milliseconds late. With DIST=dist it serves
// a build as well.

import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { breakdownRoutes } from './mock-breakdown.mjs';
import { checks } from './mock-checks.mjs';
import { apdex, deleteTarget, putTarget, sla, targetsResponse } from './mock-sla.mjs';
import { trace, traces } from './mock-traces.mjs';

const port = Number(process.env.PORT ?? 7098);
const mode = process.env.MOCK ?? '';
const delay = Number(process.env.MOCK_DELAY ?? 0);
const dist = process.env.DIST ?? '';
const now = () => Math.floor(Date.now() / 1000);

const services = [
  { name: 'checkout', rate: 204, ops: ['POST /cart', 'GET /cart/{id}', 'POST /order', 'GET /order/{id}', 'DELETE /cart/{id}'] },
  { name: 'catalogue', rate: 812, ops: ['GET /products', 'GET /products/{id}', 'GET /search'] },
  { name: 'billing', rate: 11.4, ops: ['POST /charge', 'invoice.created process'] },
  { name: 'mailer', rate: 0.42, ops: ['order.placed process'] },
];
const tenants = Array.from({ length: 2400 }, (_, i) => ({ name: i < 6 ? ['acme', 'globex', 'initech', 'umbrella', 'hooli', 'stark'][i] : `tenant-${String(i).padStart(4, '0')}`, w: 1 / (i + 1) ** 1.05 }));
const tenantWeight = tenants.reduce((s, t) => s + t.w, 0);
let marks = [
  { id: 'm1', time: now() - 4 * 3600, name: 'A', service: 'checkout', description: 'six nodes with SSDs added', revision: '4f2a91c' },
  { id: 'm2', time: now() - 2.2 * 3600, name: 'B', service: 'checkout', description: 'old nodes removed' },
];

const hash = (...xs) => {
  let h = 2166136261;
  for (const c of xs.join('|')) h = Math.imul(h ^ c.charCodeAt(0), 16777619);
  h ^= h >>> 15; h = Math.imul(h, 2246822507); h ^= h >>> 13; h = Math.imul(h, 3266489909); h ^= h >>> 16;
  return (h >>> 0) / 4294967296;
};
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const y = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x);
  return x < 0 ? -y : y;
}
const cdf = (v, median, sigma) => 0.5 * (1 + erf(Math.log(v / median) / (sigma * Math.SQRT2)));

const K0 = -320, K1 = 64; // schema 5: about 1 ms to 4 s
const bound = (k) => 2 ** (k / 32);

function populations(svc, t, m) {
  const upgraded = t > marks0(1), adding = t > marks0(0);
  const night = Math.sin(((t % 86400) / 86400) * 2 * Math.PI) > 0.75 && !upgraded;
  const share = svc.rate / services[0].rate;
  const rateNow = svc.rate * (1 + 0.45 * Math.sin(((t % 86400) / 86400 - 0.3) * 2 * Math.PI)) * (m.share ?? 1) + share * 0;
  const slow = svc.name === 'catalogue' ? 0.6 : 1;
  return {
    rate: rateNow,
    pops: [
      [0.62, 0.0062 * slow, 0.32],
      [0.355, 0.044 * slow * (adding && !upgraded ? 1.1 : 1), 0.16],
      [upgraded ? 0.004 : night ? 0.06 : 0.02, upgraded ? 0.12 : 0.33, upgraded ? 0.3 : 0.5],
    ],
  };
}
const marks0 = (i) => now0 - [4, 2.2][i] * 3600;
const now0 = now();

function column(svc, t, step, m) {
  const { rate, pops } = populations(svc, t + step / 2, m);
  const expected = rate * step;
  const out = new Map();
  let count = 0, sum = 0;
  for (const [w, med, sig] of pops) {
    const lo = Math.floor(32 * Math.log2(med * Math.exp(-4 * sig))), hi = Math.ceil(32 * Math.log2(med * Math.exp(4 * sig)));
    let prev = cdf(bound(lo), med, sig);
    for (let k = lo + 1; k <= hi; k++) {
      const c = cdf(bound(k), med, sig);
      const e = expected * w * (c - prev);
      prev = c;
      const n = Math.max(0, Math.floor(e + (hash(svc.name, t, k) - 0.5) * 2 * Math.sqrt(e) + hash(t, k, w)));
      if (!n || k <= K0 || k > K1) continue;
      out.set(k, (out.get(k) ?? 0) + n);
      count += n;
      sum += n * bound(k - 0.5);
    }
  }
  return { t, buckets: out, count, sum };
}

const steps = [10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
function grid(q) {
  const start = Number(q.get('start')), end = Number(q.get('end'));
  let step = Number(q.get('step') ?? 0);
  const width = Number(q.get('width') ?? 300);
  if (!step) step = steps.find((s) => Math.ceil(end / s) - Math.floor(start / s) <= width) ?? 86400;
  return { start: Math.floor(start / step) * step, end: Math.ceil(end / step) * step, step };
}
function pick(q) {
  const match = q.get('match') ?? '';
  const svc = services.find((s) => match.includes(`service="${s.name}"`)) ?? services[0];
  const share = (match.includes('operation=') ? 1 / svc.ops.length : 1) * (match.includes('tenant=') ? 0.12 : 1) * (match.includes('status="error"') ? 0.0012 : 1);
  return { svc, m: { share } };
}
function columns(q) {
  const { svc, m } = pick(q);
  const g = grid(q);
  const cols = [];
  for (let t = g.start; t < Math.min(g.end, now()); t += g.step) {
    if (hash('gap', Math.floor(t / 7200)) < 0.02) continue;
    cols.push(column(svc, t, g.step, m));
  }
  return { ...g, cols, svc, m };
}
function quantile(buckets, count, q) {
  if (!count) return null;
  let rank = q * count;
  for (const k of [...buckets.keys()].sort((a, b) => a - b)) {
    const n = buckets.get(k);
    if (rank <= n) return bound(k - 1 + rank / n);
    rank -= n;
  }
  return null;
}
function merge(cols) {
  const buckets = new Map();
  let count = 0, sum = 0;
  for (const c of cols) {
    count += c.count; sum += c.sum;
    for (const [k, n] of c.buckets) buckets.set(k, (buckets.get(k) ?? 0) + n);
  }
  return { buckets, count, sum };
}
const qs = (q) => (q.get('q') ?? '0.5,0.95,0.99').split(',');
const quantiles = (d, list) => Object.fromEntries(list.map((q) => [q, quantile(d.buckets, d.count, Number(q))]));
const minMax = (d) => { const ks = [...d.buckets.keys()]; return ks.length ? [bound(Math.min(...ks) - 0.6), bound(Math.max(...ks) - 0.3)] : [null, null]; };

function group(d, labels, q) {
  const [min, max] = minMax(d);
  const g = { labels, count: d.count, sum: d.sum, mean: d.count ? d.sum / d.count : null, min, max, quantiles: quantiles(d, qs(q)), error: 0.022 };
  if (q.get('at')) g.at = q.get('at').split(',').map(Number).map((v) => {
    const k = Math.ceil(32 * Math.log2(v));
    let below = 0, same = 0;
    for (const [b, n] of d.buckets) { if (b < k) below += n; if (b === k) same += n; }
    return { value: v, below: below / d.count, same: same / d.count, above: 1 - (below + same) / d.count, low: bound(k - 1), high: bound(k) };
  });
  if (q.get('buckets')) g.buckets = [...d.buckets].sort((a, b) => a[0] - b[0]).map(([k, n]) => ({ low: bound(k - 1), high: bound(k), count: n }));
  return g;
}

const routes = {
  status: () => ({ version: 'dev', otlp_grpc: '127.0.0.1:4317', otlp_http: '127.0.0.1:4318', now: Date.now() / 1000, has_data: mode !== 'empty', first: mode === 'empty' ? null : Date.now() / 1000 - 6 * 3600, flush_seconds: 11 }),
  services: (q) => {
    const { start, end, step } = grid(q);
    const list = mode === 'empty' ? [] : services.map((svc) => {
      q.set('match', `{service="${svc.name}"}`);
      const { cols } = columns(q);
      const d = merge(cols);
      const errors = Math.round(d.count * (svc.name === 'billing' ? 0.021 : 0.0012));
      const at = new Map(cols.map((c) => [c.t, c]));
      const rate = [], p95 = [];
      for (let t = start; t < end; t += step) { const c = at.get(t); rate.push(c ? c.count / step : null); p95.push(c ? quantile(c.buckets, c.count, 0.95) : null); }
      return { name: svc.name, requests: d.count, rate: d.count / (end - start), errors, error_ratio: errors / d.count, apdex: 0.94, apdex_t: 0.5, mean: d.sum / d.count, quantiles: quantiles(d, ['0.5', '0.95', '0.99']), error: 0.022, sparkline: { rate, p95 } };
    });
    return { start, end, step, services: list };
  },
  heatmap: (q) => {
    const { start, end, step, cols } = columns(q);
    let lo = Infinity, hi = -Infinity, max = 0, count = 0;
    for (const c of cols) for (const [k, n] of c.buckets) { lo = Math.min(lo, k); hi = Math.max(hi, k); max = Math.max(max, n); count += n; }
    const bounds = [];
    if (hi >= lo) for (let k = lo - 1; k <= hi; k++) bounds.push(bound(k));
    return { start, end, step, slot: 10, family: q.get('family'), error: 0.022, bounds, count, max_cell: max, columns: cols.filter((c) => c.count).map((c) => {
      const ks = [...c.buckets.keys()].sort((a, b) => a - b);
      const [mn, mx] = minMax(c);
      return { start: c.t, count: c.count, sum: c.sum, min: mn, max: mx, rows: ks.map((k) => k - lo), counts: ks.map((k) => c.buckets.get(k)) };
    }) };
  },
  timeline: (q) => {
    const overlay = q.get('overlay');
    if (overlay) {
      const back = { day: 1, week: 7, like: 3 }[overlay] * 86400;
      const day = new Date((Number(q.get('start')) - back) * 1000).toUTCString();
      q.delete('overlay');
      q.set('start', String(Number(q.get('start')) - back));
      q.set('end', String(Number(q.get('end')) - back));
      const r = routes.timeline(q);
      return { ...r, start: r.start + back, end: r.end + back, times: r.times.map((t) => t + back), overlay: { name: overlay, of: `${day.slice(0, 3)} ${Number(day.slice(5, 7))} ${day.slice(8, 11)}`, zone: q.get('tz') } };
    }
    const { start, end, step, cols, svc } = columns(q);
    const at = new Map(cols.map((c) => [c.t, c]));
    const times = [];
    for (let t = start; t < end; t += step) times.push(t);
    const list = qs(q);
    if (q.get('family')?.includes('cpu')) return { start, end, step, slot: 10, family: q.get('family'), per: q.get('per') ?? undefined, times, groups: (q.get('by') ? ['a', 'b'] : ['']).map((i) => ({ labels: i ? { instance: `shop-${i}` } : {}, count: [], rate: [], mean: [], error_ratio: [], quantiles: {}, error: null, value: times.map((t) => (q.get('per') ? 0.0031 : 1.4) * (1 + 0.3 * Math.sin(t / 9000 + (i === 'a' ? 1 : 0)) + 0.1 * hash(t, i))) })) };
    if (q.get('family')?.includes('memory')) return { start, end, step, slot: 10, family: q.get('family'), times, groups: ['a', 'b'].map((i) => ({ labels: { instance: `shop-${i}` }, count: times.map(() => 1), rate: times.map(() => 0.1), mean: [], error_ratio: [], quantiles: {}, error: null, value: times.map((t) => 3e8 + 4e7 * Math.sin(t / 4000 + (i === 'a' ? 0 : 1)) + 2e7 * hash(t, i)) })) };
    return { start, end, step, slot: 10, family: q.get('family'), times, groups: [{ labels: {}, count: times.map((t) => at.get(t)?.count ?? 0), rate: times.map((t) => (at.get(t) ? at.get(t).count / step : null)), mean: times.map((t) => (at.get(t)?.count ? at.get(t).sum / at.get(t).count : null)), error_ratio: times.map((t) => (at.get(t) ? (hash('e', t) < 0.3 ? (svc.name === 'billing' ? 0.03 : 0.004) * hash('f', t) : 0) : null)), quantiles: Object.fromEntries(list.map((p) => [p, times.map((t) => (at.get(t) ? quantile(at.get(t).buckets, at.get(t).count, Number(p)) : null))])), error: 0.022 }] };
  },
  distribution: (q) => {
    const full = q.get('match') ?? '';
    q.set('width', '60');
    const { start, end, cols, svc } = columns(q);
    const d = merge(cols);
    const scale = (f) => ({ buckets: new Map([...d.buckets].map(([k, n]) => [k, Math.round(n * f)])), count: Math.round(d.count * f), sum: d.sum * f });
    let groups;
    if (q.get('by') === 'operation') groups = svc.ops.map((o, i) => group(scale([0.4, 0.3, 0.15, 0.1, 0.05][i]), { operation: o }, q));
    else groups = d.count ? [group(d, {}, q)] : [];
    return { start, end, family: q.get('family'), slot: 10, groups, match: full };
  },
  labels: (q) => {
    const { svc } = pick(q);
    const vals = (xs, n = 4e6) => xs.map((value, i) => ({ value, count: Math.round(n / (i + 1)) }));
    const s = q.get('search') ?? '';
    const t = tenants.filter((x) => x.name.includes(s));
    return { labels: [
      { name: 'operation', total: svc.ops.length, values: vals(svc.ops) },
      { name: 'component', total: 3, values: vals(['app', 'db', 'cache']) },
      { name: 'kind', total: 3, values: vals(['server', 'client', 'internal']) },
      { name: 'tenant', total: t.length, values: t.slice(0, Number(q.get('limit') ?? 100)).map((x) => ({ value: x.name, count: Math.round((4e6 * x.w) / tenantWeight) })) },
      { name: 'status', total: 2, values: [{ value: 'ok', count: 4.4e6 }, { value: 'error', count: 5310 }] },
      { name: 'version', total: 2, values: vals(['1.8.0', '1.8.1']) },
      { name: 'instance', total: 2, values: vals(['shop-a', 'shop-b']) },
      { name: 'service', total: services.length, values: vals(services.map((s) => s.name)) },
    ] };
  },
  families: () => ({ families: mode === 'empty' ? [] : [
    { name: 'span_duration_seconds', kind: 'distribution', unit: 'seconds' },
    { name: 'process_memory_usage_bytes', kind: 'gauge', unit: 'bytes', interval: 10 },
    { name: 'process_cpu_time_seconds_total', kind: 'counter', unit: 'seconds', interval: 10 },
    { name: 'go_gc_pause_seconds', kind: 'distribution', unit: 'seconds', interval: 10 },
    { name: 'http_server_request_duration_seconds', kind: 'distribution', unit: 'seconds', interval: 60 },
  ] }),
  tenants: (q) => {
    const s = (q.get('search') ?? '').toLowerCase(), offset = Number(q.get('offset') ?? 0), limit = Number(q.get('limit') ?? 50);
    const all = mode === 'empty' ? [] : tenants.filter((t) => t.name.includes(s));
    return { start: Number(q.get('start')), end: Number(q.get('end')), total: all.length, tenants: all.slice(offset, offset + limit).map((t) => ({ name: t.name, requests: Math.round((4.4e6 * t.w) / tenantWeight), share: t.w / tenantWeight, errors: Math.round(hash(t.name) * 20), mean: 0.025, quantiles: { 0.5: 0.0083, 0.95: 0.061 + hash(t.name) * 0.02, 0.99: 0.21 + hash(t.name, 1) * 0.3 }, error: 0.022 })) };
  },
};

Object.assign(routes, breakdownRoutes({ grid, now, mode, marks: () => marks }));

createServer((req, res) => {
  const u = new URL(req.url, 'http://x');
  const send = (status, body, type = 'application/json') => setTimeout(() => {
    res.writeHead(status, { 'content-type': type });
    res.end(type === 'application/json' ? JSON.stringify(body) : body);
  }, delay);
  if (!u.pathname.startsWith('/api/v1/')) {
    if (!dist) return send(404, 'not found', 'text/plain');
    const f = join(dist, u.pathname);
    const file = u.pathname !== '/' && existsSync(f) && extname(f) ? f : join(dist, 'index.html');
    const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };
    return send(200, readFileSync(file), types[extname(file)] ?? 'application/octet-stream');
  }
  const path = u.pathname.slice('/api/v1/'.length);
  if (mode === 'error' && path !== 'status') return send(503, { error: { code: 'unavailable', message: 'the store is closed for a moment: the disk is full; free some space or lower retention.total-size' } });
  if (path === 'marks' && req.method === 'GET') return send(200, { marks: mode === 'empty' ? [] : marks });
  if (path === 'marks' && req.method === 'POST') {
    let body = '';
    req.on('data', (d) => (body += d));
    return req.on('end', () => {
      const m = { id: `m${Date.now()}`, time: now(), ...JSON.parse(body) };
      marks = [...marks, m].sort((a, b) => a.time - b.time);
      send(200, m);
    });
  }
  if (path.startsWith('marks/') && req.method === 'GET') {
    const m = marks.find((x) => x.id === decodeURIComponent(path.slice(6)));
    return m ? send(200, m) : send(404, { error: { code: 'not_found', message: 'there is no such mark' } });
  }
  if (path.startsWith('marks/') && req.method === 'DELETE') {
    marks = marks.filter((m) => m.id !== decodeURIComponent(path.slice(6)));
    return send(204, '', 'text/plain');
  }
  if (/^(checks?|incidents|maintenance)(\/|$)/.test(path)) {
    let body = '';
    req.on('data', (d) => (body += d));
    return req.on('end', () => {
      const a = mode === 'empty' ? [200, { checks: [], total: 0, counts: {}, receivers: [], files: [], lag: null, now: now() }] : checks(req.method, decodeURIComponent(path), u.searchParams, body ? JSON.parse(body) : undefined, now());
      send(...(a ?? [404, { error: { code: 'not_found', message: `there is nothing at ${u.pathname}` } }]));
    });
  }
  if (path === 'apdex') return send(200, apdex(u.searchParams, grid(u.searchParams)));
  if (path === 'sla') return send(200, sla(u.searchParams, now()));
  if (path === 'apdex-targets' && req.method === 'PUT') {
    let body = '';
    req.on('data', (d) => (body += d));
    return req.on('end', () => send(200, putTarget(JSON.parse(body))));
  }
  if (path === 'apdex-targets' && req.method === 'DELETE') return deleteTarget(u.searchParams), send(204, '', 'text/plain');
  if (path === 'apdex-targets') return send(200, targetsResponse());
  if (path === 'traces') return send(200, mode === 'empty' ? { traces: [] } : traces(u.searchParams, now()));
  if (path.startsWith('traces/')) return path.endsWith('0000') ? send(404, { error: { code: 'not_found', message: 'no such trace is kept' } }) : send(200, trace(path.slice(7), now()));
  const route = routes[path];
  if (!route) return send(404, { error: { code: 'not_found', message: `there is nothing at ${u.pathname}` } });
  try {
    send(200, route(u.searchParams));
  } catch (e) {
    send(500, { error: { code: 'internal', message: String(e) } });
  }
}).listen(port, '127.0.0.1', () => console.log(`mock API on http://127.0.0.1:${port}${mode ? ` (${mode})` : ''}`));
