// Checks for the development server: one in trouble, some not, incidents, a
// backtest that depends on the threshold.

const hash = (x) => {
  const s = Math.sin(x * 12.9898) * 43758.5453;
  return s - Math.floor(s);
};
const usual = (t) => 0.13 + 0.05 * Math.sin(((t % 86400) / 86400 - 0.3) * 2 * Math.PI);
const begun = Math.floor(Date.now() / 1000) - 2400;
const bursts = [begun - 20 * 86400, begun - 11 * 86400, begun - 3 * 86400 + 7000, begun - 9000];
const valueAt = (t) => usual(t) * (1 + 0.16 * (hash(Math.floor(t / 60)) - 0.5)) + (t > begun ? 0.27 : bursts.some((b) => t > b && t < b + 3000) ? 0.2 : 0);
const bands = (t, warn = 0.2, crit = 0.6) => ({ threshold: usual(t), low_critical: null, low_warning: null, high_warning: usual(t) * (1 + warn), high_critical: usual(t) * (1 + crit) });
const none = { threshold: null, low_critical: null, low_warning: null, high_warning: null, high_critical: null };
let acked, windows, marked;

const id = 'shop p99';
const source = 'p99(span_duration_seconds{service="shop", kind="server"}[-5M:-0M])';
const of = 'avgmad({check="shop p99"}[4 weekdays, -30M:+30M])';
const levelOf = (v, b) => (v > b.high_critical ? 'CRITICAL' : v > b.high_warning ? 'WARNING' : 'OK');

function past(start, end, step, warn, crit) {
  const points = [], states = [];
  for (let t = Math.floor(start / step) * step; t < end; t += step) {
    const b = bands(t, warn, crit);
    const v = hash(t) < 0.005 ? null : valueAt(t);
    points.push({ time: t, value: v, min: v && v * 0.93, max: v && v * 1.09, bands: { ...b, rule: 'last four weekdays' } });
    const state = v == null ? 'UNKNOWN' : levelOf(v, b);
    const last = states[states.length - 1];
    if (last?.state === state) last.end = t + step;
    else states.push({ start: t, end: t + step, state, soft: v == null });
  }
  if (states.length) states[states.length - 1].end = null;
  return { start, end, step, points, states };
}

const event = (seq, time, kind, from, to, text) => ({ seq, time, kind, from, to, text });
const incidents = (now) => [
  { id: 'c-9', kind: 'check', check: id, start: begun, end: null, worst: 'CRITICAL', state: 'CRITICAL', value: 0.412, text: 'p99 is 412 ms, the threshold 152 ms', ...(acked ? { acked } : {}), events: [event(1, begun, 'opened', 'OK', 'WARNING', ''), event(2, begun + 60, 'changed', 'WARNING', 'CRITICAL', ''), ...(acked ? [event(3, acked.time, 'acknowledged', 'CRITICAL', 'CRITICAL', acked.comment)] : [])] },
  { id: 'c-8', kind: 'check', check: id, start: bursts[3], end: bursts[3] + 3050, worst: 'CRITICAL', state: 'OK', value: 0.34, text: 'p99 is 340 ms, the threshold 150 ms', events: [event(1, bursts[3], 'opened', 'OK', 'CRITICAL', ''), event(2, bursts[3] + 3050, 'resolved', 'CRITICAL', 'OK', '')] },
  ...marked, { id: 'c-7', kind: 'check', check: 'errors{operation="GET /a"}', start: now - 40000, end: now - 39000, worst: 'WARNING', state: 'OK', value: 0.02, text: 'errors are 2.0 %', events: [] },
].sort((a, b) => b.start - a.start);
marked = [{ id: 'm-1', kind: 'marked', name: 'disk full', check: id, start: bursts[1] - 200, end: bursts[1] + 2800, value: null, text: '' }, { id: 'm-2', kind: 'marked', name: 'slow lock', check: id, start: begun - 7 * 86400, end: begun - 7 * 86400 + 1800, value: null, text: '' }];
windows = [{ id: '', name: 'backup', checks: ['shop p99', 'disk'], start: begun + 40000, end: begun + 43600, active: false, fixed: true, when: '0 2 * * *, 1 h' }, { id: 'w-1', name: 'upgrade', checks: [], start: begun, end: begun + 7200, user: 'ann', active: true, fixed: false }];

function list(now) {
  const shop = { id, name: id, labels: { team: 'shop' }, description: 'the slowest in a hundred requests against the same hour on the last four working days', unit: 's', source: 'expression', schedule: 'every 10s', state: 'CRITICAL', level: 'CRITICAL', soft: false, since: begun, last: now - 4, next: now + 6, value: valueAt(now), text: 'p99 is 412 ms', bands: { ...bands(now), rule: 'last four weekdays' }, flapping: false, receivers: ['alertmanager', 'mail'], incident: incidents(now)[0], ...(acked ? { quiet: `acknowledged by ${acked.user}` } : {}) };
  const other = (o) => ({ name: o.id, labels: {}, unit: '', source: 'query', schedule: 'every 1m0s', state: 'OK', level: o.state ?? 'OK', soft: false, since: now - 86400 * 3, last: now - 20, next: now + 40, value: 1, text: '', bands: none, flapping: false, receivers: ['mail'], ...o });
  return [
    shop,
    other({ id: 'stock', state: 'UNKNOWN', level: 'UNKNOWN', source: 'http', since: now - 700, value: null, text: 'connect to shop.example:443: connection refused; is it running?', flapping: true }),
    other({ id: 'disk', state: 'WARNING', level: 'WARNING', source: 'command', unit: '%', value: 91, text: 'DISK WARNING - free space: / 4,310 MiB (9 %)', bands: { ...none, threshold: 80, high_warning: 90, high_critical: 95 }, quiet: 'maintenance backup' }),
    other({ id: 'certificate', source: 'tls', schedule: 'every 1h0m0s', unit: 'days', value: 61.2, bands: { ...none, threshold: 14, low_warning: 14, low_critical: 7 }, text: 'CN=shop.example, until 20 Jan' }),
    ...Array.from({ length: 137 }, (_, i) => other({ id: `errors{operation="GET /items/{id}/part-${i}"}`, name: 'errors', labels: { operation: `GET /items/{id}/part-${i}` }, unit: '', value: hash(i) / 200, soft: i === 3, level: i === 3 ? 'WARNING' : 'OK', bands: { ...none, threshold: 0, high_warning: 0.01, high_critical: 0.05 } })),
  ];
}

const bad = (field, message) => [400, { error: { code: 'invalid', message, field } }];
function steps(e) {
  if (/[([]\s*$/.test(e) || (e.match(/\(/g) ?? []).length !== (e.match(/\)/g) ?? []).length) return bad('expression', `column ${e.length}: the parenthesis is not closed; add )`);
  const inner = e.slice(e.indexOf('(') + 1, -1);
  return [200, { value: usual(Date.now() / 1000), steps: [{ text: e, offset: 0, depth: 0, value: '0.152', number: 0.152 }, { text: inner, offset: e.indexOf('(') + 1, depth: 1, value: '4 days, 1,440 values 0.121 … 0.181', number: null }] }];
}

export function checks(method, path, q, body, now) {
  if (path === 'checks') {
    const all = list(now).filter((c) => `${c.id} ${c.description ?? ''}`.toLowerCase().includes((q.get('q') ?? '').toLowerCase()));
    const of = q.get('state') ?? '';
    const some = all.filter((c) => !of || (of === 'bad' ? c.state !== 'OK' : c.state === of));
    const counts = {};
    for (const c of all) counts[c.state] = (counts[c.state] ?? 0) + 1;
    const offset = Number(q.get('offset') ?? 0);
    return [200, { checks: some.slice(offset, offset + Number(q.get('limit') ?? 100)), total: some.length, counts, files: ['/etc/tailscope/checks.yaml'], lag: 0.012, now, problem: process.env.MOCK === 'problem' ? 'checks.yaml:12:5: there is no key "warn"; did you mean warning?' : undefined,
      receivers: [{ name: 'mail', kind: 'email', to: 'mail.example:587', state: 'waiting', error: 'dial tcp 10.0.0.9:587: connection refused', next: now + 31, delivered: 40, failed: 12, spooled: 3, dropped: {} }, { name: 'alertmanager', kind: 'alertmanager', to: 'http://alertmanager.example:9093', state: 'idle', next: null, delivered: 900, failed: 0, spooled: 0, dropped: {} }] }];
  }
  if (path === 'checks/evaluate') return steps(body.expression);
  if (path === 'checks/backtest') {
    const share = (s, d) => (s ? (s.endsWith('%') ? parseFloat(s) / 100 : parseFloat(s)) : d);
    if (body.threshold?.warning && !(share(body.threshold.warning, 0) >= 0)) return bad('threshold.warning', `"${body.threshold.warning}" is no distance; write 10% or 5`);
    const warn = share(body.threshold?.warning, 0.2), crit = share(body.threshold?.critical, 0.6);
    const run = (w, c) => {
      const p = past(body.start, body.end, Math.max(60, Math.ceil((body.end - body.start) / 400 / 60) * 60), w, c);
      const alarms = p.states.filter((s) => s.state === 'CRITICAL' || (s.state === 'WARNING' && (s.end ?? now) - s.start > p.step)).map((s) => ({ start: s.start, end: s.end, worst: s.state, value: valueAt(s.start) }));
      const inc = marked.filter((m) => m.start < body.end && m.end > body.start).map((m) => { const a = alarms.find((x) => x.start < m.end + 3600 && (x.end ?? now) > m.start); if (a) a.incident = m.id; return { ...m, found: !!a, after: a ? a.start - m.start : null }; });
      const weeks = (body.end - body.start) / 604800;
      return { ...p, alarms, incidents: inc, found: inc.filter((i) => i.found).length, missed: inc.filter((i) => !i.found).length, false: alarms.filter((a) => !a.incident).length, per_week: alarms.length / weeks, bad_seconds: alarms.reduce((n, a) => n + (a.end ?? now) - a.start, 0) };
    };
    const r = run(warn, crit), b = run(0.2, 0.6);
    return [200, { ...r, runs: Math.round((body.end - body.start) / 10), nulls: 12, no_threshold: 0, every: 10, ...(body.threshold || body.value || body.states ? { before: { ...b, alarms: b.alarms.length } } : {}) }];
  }
  if (path === 'check/acknowledge') {
    acked = method === 'POST' ? { ...body, time: now } : undefined;
    return [200, list(now)[0]];
  }
  if (path === 'check/run') return [200, list(now).find((c) => c.id === q.get('id'))];
  if (path === 'check') {
    const c = list(now).find((x) => x.id === q.get('id'));
    if (!c) return [404, { error: { code: 'not_found', message: 'there is no such check' } }];
    const p = past(Number(q.get('start')), Math.min(now, Number(q.get('end'))), Number(q.get('step') || 60));
    const shop = c.id === id;
    if (!shop) for (const x of p.points) { x.value = c.value == null ? null : c.value * (1 + 0.1 * hash(x.time)); x.min = x.max = x.value; x.bands = c.bands; }
    return [200, { ...p, end: Number(q.get('end')), check: c, file: '/etc/tailscope/checks.yaml:4', null: 'skip', definition: `shop p99:\n  every: 10s\n  value: ${source}\n  threshold:\n    must: "<"\n    of: ${of}\n    warning: 20%\n    critical: 60%\n  soft: 3 of 5\n`, ...(shop ? { expression: source } : {}), rules: { bad: '3 of 5', good: '1 of 1' },
      ...(c.bands.threshold == null ? {} : { threshold: { must: c.bands.low_warning ? '>' : '<', of: shop ? of : String(c.bands.threshold), warning: '20%', critical: '60%' } }), ...(shop ? { value_steps: steps(source)[1].steps, threshold_steps: steps(of)[1].steps } : {}), incidents: incidents(now).filter((i) => i.check === c.id && i.start < Number(q.get('end')) && (i.end ?? now) > Number(q.get('start'))) }];
  }
  if (path === 'incidents' && method === 'POST') return marked.push({ id: `m-${now}`, kind: 'marked', text: '', value: null, ...body }), [200, marked[marked.length - 1]];
  if (path === 'incidents') return [200, { incidents: incidents(now).filter((i) => (!q.get('kind') || i.kind === q.get('kind')) && (!q.get('open') || i.end == null)) }];
  if (path.startsWith('incidents/')) return (marked = marked.filter((m) => m.id !== path.slice(10))), [204, ''];
  if (path === 'maintenance' && method === 'POST') return windows.push({ id: `w-${now}`, active: true, fixed: false, ...body }), [200, windows[windows.length - 1]];
  if (path === 'maintenance') return [200, { windows }];
  if (path.startsWith('maintenance/')) return (windows = windows.filter((w) => w.id !== path.slice(12))), [204, ''];
  return undefined;
}
