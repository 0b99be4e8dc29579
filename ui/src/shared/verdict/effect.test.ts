import { expect, test } from 'vitest';
import type { MirrorMeasure, MirrorRow, MirrorVerdictResponse } from '../api/schema';
import { controlText, differenceAxis, effectOf, figureOf, floorOf, floorText, pointsText, ratioAxis, ratiosFirst, ratioText, ratioTick, rowSort, sortedRows, tone, unbroken, verdictCsv, verdictMarkdown } from './effect';

const measure = (o: Partial<MirrorMeasure> = {}): MirrorMeasure => ({
  name: 'ratio', reference: 1, candidate: 0.8, effect: 0.8, low: 0.79, high: 0.81, floor: 1.001, floor_low: 0.99, floor_high: 1.01, noise: 0.01, p: 1e-6, adjusted_p: 1e-5, verdict: 'faster', sentence: '', ...o,
});
const row = (name: string, requests: number, effect: number | null, lead = 'ratio'): MirrorRow => ({ name, requests, verdict: 'faster', lead, measures: [measure({ name: lead, effect })] });

test('colour says what the word says', () => {
  expect(['faster', 'fewer errors', 'slower', 'more errors', 'mixed', 'within the noise floor', 'same', 'drifts', 'no evidence', 'too little data'].map(tone)).toEqual(['better', 'better', 'worse', 'worse', 'mixed', 'plain', 'plain', 'plain', 'plain', 'plain']);
});

test('the axis is symmetrical around 1 and holds every interval and floor', () => {
  const ms = [measure(), measure({ name: 'p99', effect: 1.3, low: 1.1, high: 1.6, noise: 0.5 }), measure({ name: 'errors', effect: 40 })];
  const a = ratioAxis(ms);
  expect(a.at(1)).toBe(0.5);
  for (const m of ms.slice(0, 2)) for (const v of [m.low!, m.high!, ...floorOf(m)!]) {
    expect(a.at(v)).toBeGreaterThan(0);
    expect(a.at(v)).toBeLessThan(1);
    expect(a.at(v) + a.at(1 / v)).toBeCloseTo(1, 9);
  }
  expect(a.ticks[0] * a.ticks[2]).toBeCloseTo(1, 12);
  // Intervals that have no end do not stretch it without bound.
  expect(ratioAxis([measure({ high: 1e9 })]).span).toBeLessThanOrEqual(Math.log(16));
  // A hair's breadth more does not move it.
  expect(ratioAxis([measure({ high: 0.811 })]).span).toBe(ratioAxis([measure()]).span);
  expect(ratioAxis([]).at(1)).toBe(0.5);
});

test('errors are differences around zero', () => {
  const m = measure({ name: 'errors', reference: 0.001, candidate: 0.004, effect: 0.003, low: 0.001, high: 0.005, floor: 0, floor_low: -0.0005, floor_high: 0.0004, noise: 0.0005, verdict: 'more errors' });
  expect(floorOf(m)).toEqual([-0.0005, 0.0005]);
  const a = differenceAxis(m);
  expect(a.at(0)).toBe(0.5);
  expect(a.at(m.high!)).toBeLessThan(1);
  expect(effectOf(m)).toEqual({ size: '0.3 points higher', interval: '0.1 … 0.5 points' });
  expect(floorText(m)).toBe('± 0.05 points');
  expect(controlText(m)).toBe('−0.05 … +0.04 points');
  expect(figureOf(m, m.reference)).toBe('0.1 %');
});

test('figures and effects in words', () => {
  expect(effectOf(measure())).toEqual({ size: '20 % faster', interval: '19 … 21 %' });
  expect(effectOf(measure({ verdict: 'within the noise floor', effect: 1.002, low: 0.998, high: 1.006 }))).toEqual({ size: '+0.2 %', interval: '−0.2 % … +0.6 %' });
  expect(floorText(measure({ noise: null }))).toBe('');
  expect(controlText(measure({ floor_low: null }))).toBe('');
  expect(floorOf(measure({ effect: null }))).toBeUndefined();
  expect(effectOf(measure({ verdict: 'higher', effect: 1.5, low: 1.4, high: 1.6 })).size).toBe('50 % higher');
  expect(pointsText(measure({ points: [{ quantile: 0.5, ratio: 1, low: 1, high: 1 }, { quantile: 0.9, ratio: 1.16, low: 1, high: 2 }] }))).toBe('90\u00a0% of requests at ×\u00a01.16 or less');
  expect([ratioText(0.98765), ratioText(1.3), ratioText(120), ratioText(null)]).toEqual(['× 0.988', '× 1.30', '× 120', '–']);
  expect([figureOf({ name: 'p99' }, 0.52), figureOf({ name: 'bytes' }, 4200)]).toEqual(['520 ms', '4.20 kB']);
});

test('the per-request ratio leads, errors end', () => {
  expect(ratiosFirst([measure({ name: 'p50' }), measure({ name: 'errors' }), measure(), measure({ name: 'bytes' })]).map((m) => m.name)).toEqual(['ratio', 'p50', 'bytes', 'errors']);
  expect(ratiosFirst(undefined)).toEqual([]);
});

test('rows are sorted as asked, the surest first otherwise', () => {
  const rows = [row('b', 5, 0.9), row('a10', 9, 2), row('a9', 7, null)];
  expect(sortedRows(rows, '').map((r) => r.name)).toEqual(['b', 'a10', 'a9']);
  expect(sortedRows(rows, 'name').map((r) => r.name)).toEqual(['a9', 'a10', 'b']);
  expect(sortedRows(rows, '-name').map((r) => r.name)).toEqual(['b', 'a10', 'a9']);
  expect(sortedRows(rows, 'requests').map((r) => r.requests)).toEqual([9, 7, 5]);
  expect(sortedRows(rows, 'effect').map((r) => r.name)).toEqual(['a10', 'b', 'a9']);
  expect(rowSort('nonsense')).toEqual({ by: 'surest', turned: false });
  expect(rowSort('-effect')).toEqual({ by: 'effect', turned: true });
});

test('as CSV and as Markdown', () => {
  const r: MirrorVerdictResponse = {
    start: 0, end: 600, id: 'x', slot: 10, level: 0.95, live: false, slots: 60, warnings: [],
    candidates: [{ candidate: 'candidate', against: 'control', caveat: 'mind this', verdict: 'faster', headline: 'much faster', requests: 9, measures: [measure()], operations: [{ ...row('GET /a,b', 5, 0.9), measures: [measure({ effect: 0.9 })] }], tenants: [], operations_judged: 1, tenants_judged: 0 }],
  };
  const csv = verdictCsv(r).trim().split('\n');
  expect(csv).toHaveLength(3);
  expect(csv[1]).toBe('candidate,control,all,,9,ratio,1,0.8,0.8,0.79,0.81,1.001,0.99,1.01,0.01,0.000001,0.00001,faster');
  expect(csv[2]).toContain('operation,"GET /a,b",5,ratio');
  const md = verdictMarkdown(r, 'new cache', 'http://x');
  expect(md).toContain('### candidate: faster');
  expect(md).toContain('> mind this');
  expect(md).toContain('| GET /a,b (Per request) |');
});

test('numbers stay with their units', () => {
  expect(unbroken('−8.6 % to −0.2 points')).toBe('−8.6\u00a0% to −0.2\u00a0points');
});

test('ticks tell ratios from 1', () => {
  expect([1, 1 / 1.005, 1.005, 1 / 1.1, 1.1, 4, 1 / 1.5].map(ratioTick)).toEqual(['1', '× 0.995', '× 1.005', '× 0.91', '× 1.1', '× 4', '× 0.67']);
});
