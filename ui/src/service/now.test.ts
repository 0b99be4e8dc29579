import { expect, test } from 'vitest';
import type { Change, Mark, Service } from '../shared/api/schema';
import { causeOf, linesOf, momentsOf, moreWords, notSearchedYet, spanWords, titleOf, unusualWords, wellSince, type Moment } from './now';

const change = (id: string, time: number, o: Partial<Change> = {}): Change => ({
  id, time, low: time - 10, high: time + 10, service: 'shop', p: 0.01, before: { start: 0, end: 100 }, after: { start: 200, end: 300 }, measures: [], verdict: 'regression',
  sentence: '', headline: '', name: '', status: 'new', near: [], found: ['durations'], ...o,
});
const spike = { kind: 'spike', sentence: '', start: 0, end: 10, service: 'shop', measure: 'p99', usual: 1, value: 2 } as Change['shape'];
const said = (all: Change[]) => momentsOf(all).map((m) => [m.lead.id, m.more.map((c) => c.id), m.end != null]);

test('one line for each event, of the change that leads it', () => {
  expect(said([
    change('call', 1000, { under: 'whole', part: { component: 'db', operation: 'SELECT', service: '' } }), change('op', 1010, { under: 'whole', operation: 'GET /a' }), change('whole', 1050),
    change('later', 1060, { service: 'cart' }),
  ])).toEqual([['later', [], false], ['whole', ['call', 'op'], false]]);
});

test('what came back stands below what lasts', () => {
  expect(said([change('slow', 1000), change('spike', 2000, { shape: spike }), change('fixed', 3000, { ended: 4000 }), change('fix', 4000, { verdict: 'improvement' })]))
    .toEqual([['slow', [], false], ['fixed', [], true], ['spike', [], true]]);
});

test('what is over is told from its beginning to its end', () => {
  const at = Date.UTC(2026, 10, 20, 10) / 1000;
  const [lasts, over] = momentsOf([change('over', at, { ended: at + 240 }), change('lasts', at - 600)]);
  expect(spanWords(lasts, at)).toMatch(/^since .*09:50:00.*, 10.min ago$/);
  expect(spanWords(over, at + 300)).toMatch(/^from .*10:00:00.* to 10:04, normal again since$/);
});

test('what is under a change stands for itself where that one is not in the answer, or was dismissed and is of another service', () => {
  const under = change('op', 1010, { operation: 'GET /a', under: 'whole' });
  expect(said([under])).toEqual([['op', [], false]]);
  expect(said([change('whole', 1000, { status: 'dismissed' }), under])).toEqual([]);
  expect(said([change('whole', 1000, { status: 'dismissed' }), { ...under, service: 'cart' }])).toEqual([['op', [], false]]);
  expect(said([change('whole', 1000, { status: 'confirmed' }), under])).toEqual([['whole', ['op'], false]]);
});

test('the title claims nothing before it is known', () => {
  const title = (s: Partial<Parameters<typeof titleOf>[0]>) => titleOf({ wrong: 0, looking: false, searched: true, requests: true, checks: 0, ...s });
  expect([
    title({}), title({ wrong: 1, looking: true }), title({ looking: true, searched: false, checks: 3 }), title({ requests: false, looking: true }), title({ searched: false, checks: 3 }), title({ searched: false }),
  ]).toEqual(['Nothing is wrong now', 'What is wrong', 'Looking for what changed…', 'No requests in this range', 'No check fails', 'What is wrong is not known']);
});

test('where all services are as usual it is said, and nothing while one of them is not known', () => {
  const title = (...states: (Service['state'] | undefined)[]) => titleOf({ wrong: 0, looking: false, searched: true, requests: true, checks: 0, services: states.map((state, i) => ({ name: `s${i}`, state })) });
  expect([title('well', 'well'), title('well'), title('well', undefined), title()]).toEqual(['All 2 services are as usual', 's0 is as usual', 'Nothing is wrong now', 'Nothing is wrong now']);
});

test('services that are not as usual are named where nothing else is wrong', () => {
  const title = (s: Partial<Parameters<typeof titleOf>[0]>) => titleOf({ wrong: 0, looking: false, searched: true, requests: true, checks: 0, ...s });
  expect([title({ unusual: 1 }), title({ unusual: 2, looking: true }), title({ unusual: 1, wrong: 1 })]).toEqual(['A service is not as usual', '2 services are not as usual', 'What is wrong']);
  const odd = { name: 'cart', state: 'odd' as const, why: 'rate 0/s, usually 1 … 2/s' };
  const worse = { name: 'shop', state: 'worse' as const, why: 'p99 1 s, usually 80 … 120 ms' };
  const whom = { sentence: 'worst for globex', tenants: ['globex'] };
  expect([unusualWords([]), unusualWords([odd]), unusualWords([odd, worse]), unusualWords([{ ...worse, whom }])].map((s) => s.replace(/\u00a0/g, ' ')))
    .toEqual(['', 'cart: rate 0/s, usually 1 … 2/s', 'shop: p99 1 s, usually 80 … 120 ms, and 1 more', 'shop: p99 1 s, usually 80 … 120 ms; worst for globex']);
});

test('all is well since the last incident or moment ended', () => {
  const start = Date.UTC(2026, 10, 20, 10) / 1000;
  const spikes = momentsOf([change('a', start + 60, { shape: { ...spike!, end: start + 90 } })]);
  expect(spikes[0].end).toBe(start + 90);
  const since = (...args: Parameters<typeof wellSince>) => wellSince(...args).replace(/.*(\d\d:\d\d:\d\d).*/, (whole, at) => `${whole.startsWith('well') ? 'before ' : ''}${at}`);
  const [from, later] = [since([], [], start), since(spikes, [{ end: start + 30 }], start)];
  expect(from).toMatch(/^before ..:00:00$/);
  expect(later).toMatch(/^..:01:30$/);
  expect(since(spikes, [{ end: start + 200 }], start)).toMatch(/^..:03:20$/);
  expect(since(spikes, [{ end: start + 200 }], start, start + 240)).toMatch(/^..:04:00$/); // a minute that was seen to be unusual
});

test('what is not searched yet is said', () => {
  const at = (hour: number) => Date.UTC(2026, 10, 20, hour) / 1000;
  expect([
    notSearchedYet([]), notSearchedYet([{ start: at(5), end: at(7) }]), notSearchedYet([{ start: at(5), end: at(7) }, { start: at(9), end: at(11) }]),
  ]).toEqual(['', ', of which 20 Nov 05:00–07:00 is not searched yet', ', of which 20 Nov 05:00–07:00 and 20 Nov 09:00–11:00 are not searched yet']);
});

test('what requests call is not wrong by itself', () => {
  expect(said([change('call', 1000, { part: { component: 'db', operation: 'SELECT', service: '' } }), change('cpu', 1010, { family: 'cpu' })])).toEqual([]);
});

test('neither improvements nor what was dismissed or is not sure is wrong', () => {
  expect(said([change('a', 1000, { verdict: 'improvement' }), change('b', 2000, { status: 'dismissed' }), change('c', 3000, { verdict: 'too little data' })])).toEqual([]);
});

test('a mark after a change is not its cause', () => {
  const cause = (...times: number[]) => causeOf(change('x', 1000, { near: times.map((time) => ({ id: String(time), time }) as Mark) }))?.id;
  expect([cause(), cause(1020), cause(1005, 900), cause(1020, 900)]).toEqual([undefined, undefined, '1005', '900']);
});

test('where the others are', () => {
  const of = (...services: string[]) => moreWords({ lead: change('x', 0), more: services.map((service, i) => change(String(i), 0, { service })) });
  expect([of(), of('a'), of('a', 'b', 'b'), of('a', 'b', 'c', 'd')]).toEqual(['', '1 more in a', '3 more in a and b', '4 more in a, b and 2 others']);
});

test('a moment that lasts is told before the checks that fail of it, and before what is over', () => {
  const moment = (id: string, end?: number) => ({ lead: { id }, more: [], end }) as unknown as Moment;
  const [over, a, b, c] = [moment('over', 5), moment('a'), moment('b'), moment('c')];
  expect(linesOf(['check'], [over, a, b, c])).toEqual([a, b, 'check', over, c]);
  expect(linesOf(['check'], [over])).toEqual(['check', over]);
  expect(unusualWords([{ name: 'payments', state: 'odd', why: 'rate 5/s, usually 1 … 2/s' }], true).replace(/\u00a0/g, ' ')).toBe('Also payments: rate 5/s, usually 1 … 2/s');
});
