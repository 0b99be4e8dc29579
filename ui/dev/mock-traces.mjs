// Kept traces for the stand-in server: a shop's requests over three services,
// and one of thousands of spans (its id begins with b).

const hex = (n, w) => Math.floor(n).toString(16).padStart(w, '0').slice(-w);

function request(seed, big) {
  const spans = [];
  let next = 1;
  const add = (parent, operation, component, kind, service, start, duration, more = {}) => {
    spans.push({ span_id: hex(seed * 7919 + next++, 16), parent, depth: parent < 0 ? 0 : spans[parent].depth + 1, service, operation, component, kind, failed: false, request: kind === 'server' || kind === 'consumer', orphan: false, async: false, start, duration, self: 0, critical: 0, instance: `${service}-${seed % 2 ? 'a' : 'b'}`, tenant: 'acme', ...more });
    return spans.length - 1;
  };
  const f = 1 + (seed % 7) / 4;
  const root = add(-1, 'POST /order', 'app', 'server', 'checkout', 0, 0.42 * f, { queue: 0.018, detail: '/order?source=cart' });
  add(root, 'GET session', 'cache', 'client', 'checkout', 0.002, 0.0011);
  const cat = add(root, 'GET /products/{id}', 'external', 'client', 'checkout', 0.006, 0.062 * f);
  const catSrv = add(cat, 'GET /products/{id}', 'app', 'server', 'catalogue', 0.008, 0.057 * f, { shifted: -0.0032 });
  add(catSrv, 'SELECT products', 'db', 'client', 'catalogue', 0.011, 0.041 * f, { text: 'SELECT p.id, p.name, p.price\nFROM products p\nWHERE p.id = ? AND p.visible = ?' });
  const n = big ? 4000 : 24;
  const loop = add(root, 'load items', 'app', 'internal', 'checkout', 0.075 * f, 0.19 * f);
  for (let i = 0; i < n; i++) add(loop, 'SELECT items', 'db', 'client', 'checkout', (0.077 + (i * 0.18) / n) * f, (0.15 / n) * f, { text: 'SELECT * FROM items WHERE order_id = ? AND id = ?' });
  const pay = add(root, 'POST /charge', 'external', 'client', 'checkout', 0.272 * f, 0.12 * f, { failed: seed % 5 === 1 });
  const srv = add(pay, 'POST /charge', 'app', 'server', 'billing', 0.274 * f, 0.116 * f, { failed: seed % 5 === 1, detail: seed % 5 === 1 ? 'card declined: insufficient funds' : undefined });
  add(srv, 'INSERT payments', 'db', 'client', 'billing', 0.28 * f, 0.03 * f, { text: 'INSERT INTO payments (order_id, amount, currency) VALUES (?, ?, ?)' });
  add(srv, 'POST api.bank.example', 'external', 'client', 'billing', 0.312 * f, 0.07 * f);
  add(root, 'orders.placed send', 'messaging', 'producer', 'checkout', 0.396 * f, 0.004);
  const inv = add(root, 'render invoice', 'app', 'internal', 'checkout', 0.39 * f, 0.16 * f, { async: true });
  add(inv, 'PUT invoices', 'external', 'client', 'checkout', 0.46 * f, 0.08 * f);
  // Own time of the stand-in: what the children leave, clipped to the root.
  const end = spans[0].duration;
  spans.forEach((s, i) => {
    const busy = spans.filter((c) => c.parent === i).map((c) => [c.start, Math.min(c.start + c.duration, s.start + s.duration)]).sort((a, b) => a[0] - b[0]);
    let at = s.start, own = 0;
    const stop = Math.min(end, s.start + s.duration);
    for (const [a, b] of busy) { if (a > at) own += Math.min(a, stop) - Math.min(at, stop); at = Math.max(at, b); }
    s.self = Math.max(0, own + Math.max(0, stop - at));
    if (!s.async && s.parent !== inv && s.component !== 'cache') { s.critical = s.self; s.path = s.self > 0.001 || !big ? [s.start, Math.min(stop, s.start + s.duration)] : []; }
  });
  const sums = {};
  for (const s of spans) { const c = (sums[s.component] ??= { component: s.component, self: 0, critical: 0 }); c.self += s.self; c.critical += s.critical; }
  return { spans, components: [...Object.values(sums), { component: 'queue', self: 0.018, critical: 0 }], duration: end };
}

export function trace(id, now) {
  const seed = parseInt(id.slice(-6), 16) % 1000;
  const { spans, components, duration } = request(seed, id.startsWith('b'));
  return {
    trace_id: id, start: now - 600 - seed, duration, complete: seed % 11 !== 0, left_out: id.startsWith('b') ? 812 : 0, spans, components,
    skews: [{ service: 'catalogue', peer: 'checkout', direction: 'ahead', calls: 1, median: 0.0032, max: 0.0032 }], link: 'https://traces.example/trace/{trace_id}'.replace('{trace_id}', id),
  };
}

export function traces(q, now) {
  const start = Number(q.get('start')), end = Number(q.get('end')), limit = Number(q.get('limit') ?? 50);
  const min = Number(q.get('min') ?? 0), max = Number(q.get('max') ?? Infinity), why = q.get('why');
  let list = [];
  for (let i = 0; i < 180; i++) {
    const id = (i === 3 ? 'b' : 'a') + hex(i * 104729 + 1, 31);
    const seed = parseInt(id.slice(-6), 16) % 1000;
    const failed = seed % 5 === 1;
    list.push({ trace_id: id, span_id: hex(seed * 7919 + 1, 16), service: 'checkout', operation: ['POST /order', 'GET /cart/{id}', 'POST /cart'][i % 3], tenant: ['acme', 'globex', 'initech', 'hooli'][i % 4], failed, why: [failed ? 'failed' : i % 2 ? 'slow' : 'exemplar', ...(i % 6 ? [] : ['exemplar'])], start: Math.min(now, end) - 20 - ((i * 37) % 160) * ((end - start) / 170), duration: 0.42 * (1 + (seed % 7) / 4) * (i % 3 === 0 ? 1 : 0.3) });
  }
  list = list.filter((t) => t.duration >= min && t.duration <= max && (!why || t.why.includes(why)));
  if (q.get('sort') === 'newest') list.sort((a, b) => b.start - a.start);
  else if (q.get('sort') === 'nearest') list.sort((a, b) => Math.abs(Math.log(a.duration / Number(q.get('at')))) - Math.abs(Math.log(b.duration / Number(q.get('at')))));
  else list.sort((a, b) => b.duration - a.duration);
  return { start, end, traces: list.slice(0, limit), link: 'https://traces.example/trace/{trace_id}' };
}
