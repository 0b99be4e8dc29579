import { describe, expect, it } from 'vitest';
import { compareCommand, compareCsv, compareMarkdown } from './export';
import type { CompareFigure, CompareResponse } from '../shared/api/schema';

const f = (o: Partial<CompareFigure>): CompareFigure => ({ a: 0.1, b: 0.14, effect: 1.4, low: 1.3, high: 1.5, p: 1e-4, verdict: 'slower', error: 0.02, needed: null, needed_seconds: null, ...o });
const answer: CompareResponse = {
  family: 'span_duration_seconds', of: 'shop', a: { start: 1700000000, end: 1700003600, name: 'A', slots: 360, requests: 12000, errors: 3, rate: 3.33 },
  b: { start: 1700003600, end: 1700007200, name: 'B', slots: 360, requests: 12100, errors: 4, rate: 3.36 }, paired: false, slot: 10, level: 0.95, within: 0.05,
  verdict: 'regression', sentence: 'p99 of shop is 40 % slower (95 % interval 30 … 50 %)', covered: 1, strata: 2, strata_by: ['operation'],
  measures: [{ name: 'p99', scale: 'ratio', raw: f({ effect: 1.45 }), like_for_like: f({}), verdict: 'slower', change: 'worse', adjusted_p: 1e-3, sentence: '' }],
  operations: [{ operation: 'GET /a,"b"', requests_a: 100, requests_b: 200, mean_a: null, mean_b: null, measures: [{ name: 'p50', scale: 'ratio', raw: f({}), verdict: 'slower', change: 'worse', adjusted_p: 0.01, sentence: '' }], adjusted_p: 0.01, changed: true }],
  tenants: [], warnings: [{ code: 'mix', text: 'the mix moved' }], unit: 'seconds', live: false, shapes: [],
};

describe('compareCommand', () => {
  it('writes windows as the command takes them', () =>
    expect(compareCommand({ match: '{service="shop"}', a: '1/2', b: '3/4', family: '', level: undefined }, 'http://127.0.0.1:7099')).toBe(`tailscope compare --match '{service="shop"}' --a 1..2 --b 3..4`));
  it('leaves values of a label as they are', () =>
    expect(compareCommand({ match: '', label: 'path', a: 'x/y', b: 'z', start: 1, end: 2 }, 'http://a:1')).toBe('tailscope compare --set start=1 --set end=2 --label path --a x/y --b z --server http://a:1'));
  it('writes nights, and what is allowed', () =>
    expect(compareCommand({ a: 'daily 22:00-06:00 last 5 before now-7d', b: '1/2,3/4', tz: 'UTC', allow: 'worse:3%' }, '')).toBe("tailscope compare --a 'daily 22:00-06:00 last 5 before now-7d' --b 1..2,3..4 --set tz=UTC --set allow=worse:3%"));
  it('names a mark', () => expect(compareCommand({ mark: '5fd4', window: '30m', within: '0.02' }, '')).toBe('tailscope compare --mark 5fd4 --set window=30m --within 0.02'));
});

it('writes a report', () => {
  const s = compareMarkdown(answer, 'seconds', 'http://a/compare');
  expect(s).toContain('## p99 of shop is 40 % slower (95 % interval 30 … 50 %)');
  expect(s).toContain('| p99 | 100 ms | 140 ms | 40 % slower | 30 … 50 % | 45 % slower | slower |');
  expect(s).toContain('| GET /a,"b" | 40 % slower (30 … 50 %) | – | – | – | 100 → 200 |');
  expect(s).toContain('- warning: the mix moved');
});

it('writes a table for a spreadsheet', () => {
  const lines = compareCsv(answer).trim().split('\n');
  expect(lines[1]).toBe('shop,p99,ratio,0.1,0.14,1.4,1.3,1.5,0.0001,slower,worse,1.45,1.3,1.5,slower');
  expect(lines[2]).toBe('"GET /a,""b""",p50,ratio,0.1,0.14,1.4,1.3,1.5,0.0001,slower,worse,1.4,1.3,1.5,slower');
});
