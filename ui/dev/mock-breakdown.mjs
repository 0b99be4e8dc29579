// Breakdown, operations and callers for the development stand-in (mock.mjs):
// a shop whose cart asks its database once per item, and whose orders became
// cheap with mark B.

const hash = (...xs) => {
  let h = 2166136261;
  for (const c of xs.join('|')) h = Math.imul(h ^ c.charCodeAt(0), 16777619);
  h ^= h >>> 15; h = Math.imul(h, 2246822507); h ^= h >>> 13;
  return (h >>> 0) / 4294967296;
};

// seconds per request: typical, in the tail; calls per request likewise.
const parts = [
  { component: 'app', operation: 'GET /cart/{id}', typical: 0.0031, tail: 0.012, calls: [1, 1] },
  { component: 'db', operation: 'SELECT items', typical: 0.0018, tail: 0.064, calls: [2.1, 41.3], n1: true },
  { component: 'db', operation: 'SELECT orders', typical: 0.0022, tail: 0.081, calls: [1, 1], indexed: true },
  { component: 'db', operation: 'INSERT order_lines', typical: 0.0007, tail: 0.006, calls: [0.4, 0.6] },
  { component: 'db', operation: 'UPDATE stock', typical: 0.0004, tail: 0.031, calls: [0.3, 0.4] },
  { component: 'db', operation: 'COMMIT', typical: 0.0003, tail: 0.002, calls: [0.4, 0.4] },
  { component: 'db', operation: 'SELECT sessions', typical: 0.0002, tail: 0.0003, calls: [1, 1] },
  { component: 'cache', operation: 'GET session', typical: 0.0004, tail: 0.0006, calls: [1, 1] },
  { component: 'external', operation: 'POST /charge', service: 'payments', typical: 0.0016, tail: 0.044, calls: [0.2, 0.3] },
  { component: 'external', operation: 'GET /rates', service: 'rates.example', typical: 0.0006, tail: 0.004, calls: [0.1, 0.1] },
  { component: 'messaging', operation: 'publish orders', typical: 0.0002, tail: 0.0009, calls: [0.2, 0.2] },
  { component: 'queue', operation: '', typical: 0.0006, tail: 0.021, calls: [1, 1] },
];
const verb = (o) => (/^(SELECT|GET)/.test(o) ? 'find' : /^(INSERT|UPDATE|DELETE)/.test(o) ? 'save' : 'other');
const order = ['app', 'db', 'cache', 'external', 'messaging', 'queue'];

export function breakdownRoutes({ grid, now, mode, marks }) {
  const steps = (q) => {
    const g = grid(q);
    const times = [];
    for (let t = g.start; t < g.end; t += g.step) times.push(t);
    return { ...g, times };
  };
  const requests = (t, step) => (t > now() ? 0 : Math.round(step * 20 * (1 + 0.4 * Math.sin(t / 13000)) * (0.9 + 0.2 * hash(t))));
  const per = (p, t) => {
    const upgraded = t > marks()[1].time;
    const backup = Math.sin(t / 3500) > 0.93;
    return (p.typical + 0.06 * p.tail) * (p.indexed && upgraded ? 0.12 : 1) * (verb(p.operation) === 'save' && p.component === 'db' && backup ? 6 : 1) * (0.85 + 0.3 * hash(p.operation, t));
  };
  const empty = mode === 'empty';
  const quantiles = (p) => ({ 0.5: p.typical * 0.8, 0.95: p.tail * 0.4, 0.99: p.tail });

  function breakdown(q) {
    const g = steps(q);
    const n = g.times.map((t) => (empty ? 0 : requests(t, g.step)));
    const total = n.reduce((a, b) => a + b, 0);
    const filtered = /tenant|version|status/.test(q.get('match') ?? '');
    const self = new Map(parts.map((p) => [p, g.times.map((t, i) => n[i] * per(p, t))]));
    const sum = (xs) => xs.reduce((a, b) => a + b, 0);
    const seconds = sum(parts.filter((p) => p.component !== 'queue').map((p) => sum(self.get(p))));
    const components = order.map((component) => {
      const own = parts.filter((p) => p.component === component);
      const over = g.times.map((_, i) => sum(own.map((p) => self.get(p)[i])));
      return { component, self: over, critical: over.map((v, i) => v * (0.9 + 0.1 * hash(component, i))), seconds: sum(over), share: seconds ? sum(over) / seconds : null, critical_share: seconds ? (0.97 * sum(over)) / seconds : null, quantiles: quantiles(own[0]), error: 0.022 };
    });
    if (empty) return { ...g, slot: 10, requests: n, total: 0, seconds: 0, components: [], note: 'no request was assembled in this range' };
    const base = { start: g.start, end: g.end, step: g.step, slot: 10, times: g.times, requests: n, total, seconds, components };
    if (filtered) return { ...base, note: 'parts and the tail are kept by operation and cohort, not by tenant, version or status' };
    const inside = (p, tail) => ({ seconds: tail ? p.tail : p.typical, critical: (tail ? p.tail : p.typical) * 0.95, share: 0, calls: p.calls[tail ? 1 : 0] });
    const means = [0, 1].map((tail) => sum(parts.filter((p) => p.component !== 'queue').map((p) => inside(p, tail).seconds)));
    const above = Number(q.get('above') ?? 0.95);
    return {
      ...base,
      parts: parts.map((p) => ({
        service: p.service ?? 'checkout', component: p.component, operation: p.operation, seconds: sum(self.get(p)), share: sum(self.get(p)) / seconds, critical_share: (0.97 * sum(self.get(p))) / seconds,
        calls: Math.round(total * p.calls[0] * 1.1), per_request: p.calls[0] * 1.1, requests: Math.round(total * Math.min(1, p.calls[0])), repeated: p.n1 ? Math.round(total * 0.14) : 0, n_plus_one: !!p.n1,
        mean: p.typical * 1.4, quantiles: p.component === 'queue' ? undefined : quantiles(p), error: 0.022, self: self.get(p), band: inside(p, 1), typical: inside(p, 0),
      })).sort((a, b) => b.seconds - a.seconds),
      band: {
        low: q.get('low') ? Number(q.get('low')) : 0.061 + above / 100, high: q.get('high') ? Number(q.get('high')) : null, above: q.get('low') ? null : above,
        requests: Math.round(total * (1 - above)), mean: means[1], typical: { high: 0.0117, requests: Math.round(total / 2), mean: means[0] },
        components: order.map((component) => {
          const add = (tail) => parts.filter((p) => p.component === component).map((p) => inside(p, tail)).reduce((a, b) => ({ seconds: a.seconds + b.seconds, critical: a.critical + b.critical, share: 0, calls: a.calls + b.calls }));
          return { component, band: add(1), typical: add(0) };
        }),
      },
      fan_outs: [{ service: 'checkout', component: 'external', operation: 'GET /shard', instances: [['search-3', 0.61], ['search-1', 0.2], ['search-2', 0.19]].map(([instance, share]) => ({ instance, calls: total, last: Math.round(total * share), share, band_share: instance === 'search-3' ? 0.83 : 0.085 })) }],
      skews: [{ service: 'payments', peer: 'checkout', direction: 'ahead', calls: 1204, median: 0.0123, max: 0.081 }],
    };
  }

  function operations(q) {
    const g = steps(q);
    const wanted = (q.get('component') ?? '').split(',').filter(Boolean);
    const kinds = (q.get('kind') ?? '').split(',').filter(Boolean);
    const server = ['GET /cart/{id}', 'POST /cart', 'POST /order', 'GET /order/{id}', 'GET /health', ...Array.from({ length: 64 }, (_, i) => `GET /report/${String.fromCharCode(97 + (i % 26))}${i}`)];
    const all = [
      ...parts.filter((p) => p.component !== 'app' && p.component !== 'queue').map((p) => ({ ...p, kind: p.component === 'messaging' ? 'producer' : 'client', share: 1 })),
      ...server.map((operation, i) => ({ component: 'app', operation, kind: 'server', typical: 0.01 / (1 + i / 4), tail: 0.2 / (1 + i / 6), calls: [1 / (i + 1) ** 1.2] })),
    ].filter((p) => (!wanted.length || wanted.includes(p.component)) && (!kinds.length || kinds.includes(p.kind)));
    const rows = (empty ? [] : all).map((p) => {
      const rate_over = g.times.map((t) => (requests(t, g.step) / g.step) * p.calls[0]);
      const seconds_over = g.times.map((t) => requests(t, g.step) * per(p, t) * (p.kind === 'server' ? p.calls[0] : 1));
      const seconds = seconds_over.reduce((a, b) => a + b, 0), calls = Math.round(rate_over.reduce((a, b) => a + b * g.step, 0));
      const errors = Math.round(calls * 0.002 * hash(p.operation));
      return { service: 'checkout', operation: p.operation, component: p.component, kind: p.kind, verb: p.component === 'db' ? verb(p.operation) : undefined, calls, rate: calls / (g.end - g.start), errors, error_ratio: errors / calls, seconds, share: 0, mean: seconds / calls, quantiles: quantiles(p), error: 0.022, n_plus_one: !!p.n1, seconds_over, rate_over };
    });
    const seconds = rows.reduce((s, r) => s + r.seconds, 0);
    for (const r of rows) r.share = r.seconds / seconds;
    const raw = q.get('sort') || 'total';
    const sign = raw.startsWith('-') ? -1 : 1;
    const key = raw.replace('-', '');
    const of = (r) => (key === 'total' ? r.seconds : key === 'calls' ? r.calls : key === 'errors' ? r.errors : key === 'mean' ? r.mean : r.quantiles[key.replace('p', '0.')]);
    const found = rows.filter((r) => r.operation.toLowerCase().includes((q.get('search') ?? '').toLowerCase())).sort((a, b) => sign * (key === 'name' ? a.operation.localeCompare(b.operation) : of(b) - of(a)));
    const offset = Number(q.get('offset') ?? 0);
    const verbs = !rows.length || rows.some((r) => r.component !== 'db') ? undefined : ['find', 'save', 'other'].map((v) => {
      const own = rows.filter((r) => r.verb === v);
      const add = (k) => g.times.map((_, i) => own.reduce((s, r) => s + r[k][i], 0));
      const s = own.reduce((a, r) => a + r.seconds, 0);
      return { verb: v, seconds: s, share: s / seconds, calls: own.reduce((a, r) => a + r.calls, 0), seconds_over: add('seconds_over'), rate_over: add('rate_over') };
    });
    return { start: g.start, end: g.end, step: g.step, times: g.times, total: found.length, seconds, operations: found.slice(offset, offset + Number(q.get('limit') ?? 50)), verbs };
  }

  const callers = (q) => ({
    start: Number(q.get('start')), end: Number(q.get('end')),
    callers: [['GET /cart/{id}', 0.71, 41.2, true], ['POST /order', 0.24, 2, false], ['GET /order/{id}', 0.05, 1, false]].map(([operation, share, per_request, n_plus_one]) => ({
      service: 'checkout', operation, direct: true, calls: Math.round(4e5 * share), requests: Math.round((4e5 * share) / per_request), repeated: n_plus_one ? 3100 : 0, per_request, seconds: 812 * share, share, n_plus_one,
    })),
  });

  return { breakdown, operations, callers };
}
