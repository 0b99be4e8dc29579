// Apdex, its targets and the SLA report, for the stand-in server.

const noise = (a, b = 0) => { const x = Math.sin(a * 12.9898 + b * 78.233) * 43758.5453; return x - Math.floor(x); };
let targets = [];
const def = 0.5;

export function apdexTarget(service, operation) {
  const t = targets.find((x) => x.service === service && x.operation === operation) ?? targets.find((x) => x.service === service && !x.operation);
  return t ? { t: t.t, from: t.operation ? 'operation' : 'service' } : { t: def, from: 'default' };
}
const service = (q) => /service="([^"]*)"/.exec(q.get('match') ?? '')?.[1] ?? 'checkout';
const operation = (q) => /operation="([^"]*)"/.exec(q.get('match') ?? '')?.[1] ?? '';

export function apdex(q, grid) {
  const { start, end, step } = grid;
  const name = service(q), op = operation(q);
  const own = apdexTarget(name, op);
  const t = Number(q.get('t') ?? own.t);
  const base = Math.min(0.995, 0.7 + 0.28 * Math.min(1, Math.log(1 + t * 20) / 2.4));
  const times = [], over = [], thin = [];
  for (let x = start; x < end; x += step) { times.push(x); over.push(Math.min(1, base + 0.02 * (noise(x / step) - 0.5) - (noise(Math.floor(x / 5400)) > 0.9 ? 0.1 : 0))); thin.push(false); }
  const requests = 4.4e6, few = name === 'mailer';
  return { start, end, step, times, rows: [{ service: name, operation: op, t, from: q.get('t') ? 'asked' : own.from, apdex: base, low: base - 0.004, high: base + 0.003, satisfied: requests * (base - 0.03), tolerating: requests * 0.06, frustrated: requests * (0.97 - base), requests, rate: few ? 0.4 : 204, thin: few, over, thin_over: thin.map(() => few) }] };
}
export const targetsResponse = () => ({ default: def, targets });
export function putTarget(t) { targets = [...targets.filter((x) => !(x.service === t.service && (x.operation ?? '') === (t.operation ?? ''))), t]; return t; }
export function deleteTarget(q) { targets = targets.filter((x) => !(x.service === q.get('service') && (x.operation ?? '') === (q.get('operation') ?? ''))); }

export function sla(q, now) {
  const period = q.get('period') ?? 'week', count = Number(q.get('count') ?? 8);
  const size = { day: 86400, week: 7 * 86400, month: 30 * 86400 }[period];
  const last = period === 'week' ? Math.floor((now - 4 * 86400) / size) * size + 4 * 86400 : Math.floor(now / size) * size;
  const objective = q.get('objective') ? Number(q.get('objective')) : null;
  const rows = [];
  for (let i = count - 1; i >= 0; i--) {
    const start = last - i * size, bad = i === 2;
    const date = new Date(start * 1000).toISOString();
    const rate = 180 + 40 * noise(i, 1) + 8 * (count - i), apdex = bad ? 0.81 : 0.93 + 0.03 * noise(i, 2), p95 = bad ? 0.21 : 0.058 + 0.02 * noise(i, 3);
    const good = bad ? 0.957 : i === 5 ? 0.9899 : 0.991 + 0.006 * noise(i, 4);
    rows.push({
      start, end: start + size, name: period === 'day' ? date.slice(0, 10) : period === 'month' ? date.slice(0, 7) : `2026-W${47 - i}`, partial: i === 0, requests: Math.round(rate * (bad ? 0.67 : 1) * (i ? size : size / 3)), rate: rate * (bad ? 0.67 : 1), apdex, apdex_low: apdex - 0.004, apdex_high: apdex + 0.003,
      satisfied: apdex - 0.04, tolerating: 0.08, frustrated: 0.96 - apdex, thin: false, mean: p95 / 2.8, quantiles: { 0.5: 0.0083, 0.95: p95, 0.99: p95 * 3.6 }, error: 0.011, errors: 5310, error_ratio: bad ? 0.014 : 0.0012,
      worst: { name: bad ? 'globex' : 'tenant-0017', requests: 12000, apdex: apdex - 0.1, p95: p95 * 1.7 }, good, good_low: good - (i === 5 ? 0.0008 : 0.0002), good_high: good + (i === 5 ? 0.0009 : 0.0002), met: objective == null ? 'none' : i === 5 ? 'unknown' : good >= objective ? 'yes' : 'no',
      trend: { rate: null, apdex: null, p95: null, saturated: false },
    });
  }
  rows.forEach((r, i) => { const b = rows[i - 1]; if (b) r.trend = { rate: r.rate / b.rate, apdex: r.apdex - b.apdex, p95: r.quantiles['0.95'] / b.quantiles['0.95'], saturated: r.rate < b.rate * 0.9 && r.apdex < b.apdex - 0.05 }; });
  const all = { ...rows[0], name: 'all', partial: false, start: rows[0].start, end: rows.at(-1).end, requests: rows.reduce((a, r) => a + r.requests, 0), trend: { rate: null, apdex: null, p95: null, saturated: false } };
  return { service: service(q), operation: operation(q) || undefined, period, zone: q.get('tz') ?? 'UTC', t: Number(q.get('t') ?? apdexTarget(service(q), operation(q)).t), objective, under: q.get('under') ? Number(q.get('under')) : null, rows, all, notes: ['the oldest 2 weeks are kept in slots of an hour'] };
}
