import { expect, test } from 'vitest';
import type { Service } from '../shared/api/schema';
import { chooseAxis, layout, read } from '../shared/chart/heat';
import { bandText, nowOf, rank, stripHeat, stripWords, usualText } from './services';

const service = (o: Partial<Service> = {}): Service => ({
  name: 'shop', requests: 1210, rate: 5, errors: 0, error_ratio: 0, apdex: 1, apdex_t: 0.5, mean: 0.02, quantiles: {}, error: 0.02, sparkline: { rate: [], p95: [] }, ...o,
});
const range = { start: 1700000040, end: 1700000220, step: 60 };

test('the worst services come first, those of which nothing is known last', () => {
  const states = [undefined, 'well', 'worse', 'odd'] as Service['state'][];
  expect(states.map((state) => ({ state })).sort((a, b) => rank(b) - rank(a)).map((s) => s.state)).toEqual(['worse', 'odd', 'well', undefined]);
});

test('a minute without requests has a rate and nothing else', () => {
  const s = service({ now: { start: 0, end: 60, requests: 0, rate: 0, errors: 0, error_ratio: null, apdex: null, quantiles: { '0.5': null, '0.99': null } } });
  expect([nowOf(s, 'rate'), nowOf(s, 'errors'), nowOf(s, 'p99'), nowOf(service(), 'rate')]).toEqual([0, null, null, null]);
});

test('a band names its unit once, and nothing where it is not known', () => {
  expect([
    bandText('p99', { middle: 0.1, low: 0.08, high: 0.12 }), bandText('p99', { middle: 0.1, low: 0.8, high: 1.2 }), bandText('errors', { middle: 0, low: 0, high: 0.0034 }),
    bandText('rate', { middle: 5, low: 3.75, high: 6.25 }), bandText('p50', { middle: null, low: null, high: null }), bandText('p50', undefined),
  ]).toEqual(['80.0 … 120 ms', '800 ms … 1.20 s', '0 … 0.34 %', '3.75 … 6.25 req/s', '', '']);
});

test('a quantile that too few requests hold has no band, and says so', () => {
  const band = (low: number | null, high: number | null) => ({ middle: low, low, high });
  const usual = { of: 'days', minutes: 62, rate: band(0, 0.1), error_ratio: band(0, 0.5), p50: band(0.02, 0.03), p99: band(null, null) } as Service['usual'];
  expect([usualText(service({ usual }), 'p50'), usualText(service({ usual }), 'p99'), usualText(service(), 'p99'), usualText(service(), 'rate')]).toEqual(['20.0 … 30.0 ms', 'too few', '\u00a0', 'not known yet']);
});

test('the cursor on a strip reads the share below, and a gap as a gap', () => {
  const s = service({ strip: { bounds: [0.03, 0.06, 0.12, 0.24], from: [0, 0, 1], counts: [[6, 1102, 96], [], [6]] } });
  const h = stripHeat(range, s)!;
  const cells = layout(h, chooseAxis(h, 'log', null, null), 30, 0, 0);
  expect(h.columnCount.join()).toBe('1204,0,6');
  const words = (column: number, cell: number) => stripWords(read(h, cells, column, cell)).replace(/^\d\d:\d\d/, 'T');
  expect([words(0, 1), words(0, 2), words(1, 1), words(2, 0)]).toEqual([
    'T, 92.0 % of 1,204 requests are below 120 ms', 'T, 100.0 % of 1,204 requests are below 240 ms', 'T, no requests', 'T, 0.0 % of 6 requests are below 60.0 ms',
  ]);
  expect(stripHeat(range, service())).toBeUndefined();
});
