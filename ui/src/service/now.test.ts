import { expect, test } from 'vitest';
import type { Change, CompareMeasure, Mark, Service } from '../shared/api/schema';
import { causeOf, momentsOf, moreWords, notSearchedYet, titleOf, unusualWords, wellSince } from './now';

const change = (id: string, time: number, o: Partial<Change> = {}): Change => ({
  id, time, low: time - 10, high: time + 10, service: 'shop', p: 0.01, before: { start: 0, end: 100 }, after: { start: 200, end: 300 }, measures: [], verdict: 'regression',
  sentence: '', headline: '', name: '', status: 'new', near: [], found: ['durations'], ...o,
});
const spike = { kind: 'spike', sentence: '', start: 0, end: 10, service: 'shop', measure: 'p99', usual: 1, value: 2 } as Change['shape'];
const measure = (name: string, a: number | null, b: number | null, way?: 'worse' | 'better') =>
  ({ name, scale: name === 'errors' ? 'difference' : 'ratio', change: way, raw: { a, b } }) as CompareMeasure;
const said = (all: Change[]) => momentsOf(all).map((m) => [m.lead.id, m.more.map((c) => c.id), m.over]);

test('one line for each event, of the change that leads it', () => {
  expect(said([
    change('call', 1000, { under: 'whole', part: { component: 'db', operation: 'SELECT', service: '' } }), change('op', 1010, { under: 'whole', operation: 'GET /a' }), change('whole', 1050),
    change('later', 1060, { service: 'cart' }),
  ])).toEqual([['later', [], false], ['whole', ['call', 'op'], false]]);
});

test('what came back stands below what lasts', () => {
  expect(said([change('slow', 1000), change('spike', 2000, { shape: spike }), 
    change('fixed', 3000, { operation: 'GET /a', measures: [measure('p99', 1, 3, 'worse')] }), change('fix', 4000, { operation: 'GET /a', verdict: 'improvement', measures: [measure('p99', 3, 1.05, 'better')] })]))
    .toEqual([['slow', [], false], ['fixed', [], true], ['spike', [], true]]);
});

test('an improvement ends a moment once every figure that became worse is back', () => {
  const over = (was: CompareMeasure[], then: CompareMeasure[]) => momentsOf([change('was', 1000, { measures: was }), change('then', 2000, { verdict: 'improvement', measures: then })])[0].over;
  const [p50, p99, errors] = [measure('p50', 1, 2, 'worse'), measure('p99', 1, 2.8, 'worse'), measure('errors', 0.01, 0.21, 'worse')];
  for (const [was, then, want] of [
    [[p99], [measure('p99', 2.8, 1.1)], true],
    [[p99], [measure('p99', 2.8, 0.5)], true],
    [[p99], [measure('p99', 2.8, 1.2)], false],
    [[p99], [measure('p50', 2, 0.5, 'better'), measure('p99', 2.8, 2.8)], false], // everything else halved
    [[p99], [measure('p50', 2, 0.5, 'better')], false],
    [[p99], [measure('p99', 2.8, null)], false],
    [[p50, p99], [measure('p50', 2, 1), measure('p99', 2.8, 2)], false],
    [[measure('p50', 1, 0.5, 'better'), p99], [measure('p50', 0.5, 1), measure('p99', 2.8, 1)], true],
    [[errors], [measure('errors', 0.21, 0.03)], true],
    [[errors], [measure('errors', 0.21, 0.04)], false],
    [[measure('rate', 5, 9, 'worse'), p99], [measure('rate', 9, 9), measure('p99', 2.8, 1)], true],
    [[], [measure('p99', 2.8, 1)], false],
  ] as const) expect([was, then, over([...was], [...then])]).toEqual([was, then, want]);
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
  const of = (...services: string[]) => moreWords({ lead: change('x', 0), more: services.map((service, i) => change(String(i), 0, { service })), over: false });
  expect([of(), of('a'), of('a', 'b', 'b'), of('a', 'b', 'c', 'd')]).toEqual(['', '1 more in a', '3 more in a and b', '4 more in a, b and 2 others']);
});
