import { expect, test } from 'vitest';
import type { Change } from '../shared/api/schema';
import { momentsOf, moreWords } from './now';

const change = (id: string, time: number, o: Partial<Change> = {}): Change => ({
  id, time, low: time - 10, high: time + 10, service: 'shop', p: 0.01, before: { start: 0, end: 100 }, after: { start: 200, end: 300 }, measures: [], verdict: 'regression',
  sentence: '', headline: '', name: '', status: 'new', near: [], found: ['durations'], ...o,
});
const spike = { kind: 'spike', sentence: '', start: 0, end: 10, service: 'shop', measure: 'p99', usual: 1, value: 2 } as Change['shape'];
const said = (all: Change[]) => momentsOf(all).map((m) => [m.lead.id, m.more.map((c) => c.id), m.over]);

test('one line for each event, of the change that leads it', () => {
  expect(said([
    change('call', 1000, { under: 'whole', part: { component: 'db', operation: 'SELECT', service: '' } }), change('op', 1010, { under: 'whole', operation: 'GET /a' }), change('whole', 1050),
    change('later', 1060, { service: 'cart' }),
  ])).toEqual([['later', [], false], ['whole', ['call', 'op'], false]]);
});

test('what came back stands below what lasts', () => {
  expect(said([change('slow', 1000), change('spike', 2000, { shape: spike }), change('fixed', 3000, { operation: 'GET /a' }), change('fix', 4000, { operation: 'GET /a', verdict: 'improvement' })]))
    .toEqual([['slow', [], false], ['fixed', [], true], ['spike', [], true]]);
});

test('what requests call is not wrong by itself', () => {
  expect(said([change('call', 1000, { part: { component: 'db', operation: 'SELECT', service: '' } }), change('cpu', 1010, { family: 'cpu' })])).toEqual([]);
});

test('neither improvements nor what was dismissed or is not sure is wrong', () => {
  expect(said([change('a', 1000, { verdict: 'improvement' }), change('b', 2000, { status: 'dismissed' }), change('c', 3000, { verdict: 'too little data' })])).toEqual([]);
});

test('where the others are', () => {
  const of = (...services: string[]) => moreWords({ lead: change('x', 0), more: services.map((service, i) => change(String(i), 0, { service })), over: false });
  expect([of(), of('a'), of('a', 'b', 'b'), of('a', 'b', 'c', 'd')]).toEqual(['', '1 more in a', '3 more in a and b', '4 more in a, b and 2 others']);
});
