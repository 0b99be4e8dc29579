import type { SLAPeriod, SLAResponse } from '../shared/api/schema';
import { describe, expect, it } from 'vitest';
import { difference, metWords, moreOf, p95Trend, parseShare, questionOf, rateTrend, saturatedWords, shareWords, slaCommand, slaCsv, verdict, zoneOf, zones, type SLAQuestion } from './sla';

const row = (more: Partial<SLAPeriod> = {}): SLAPeriod => ({
  name: '2026-W46', start: 1794178800, end: 1794783600, partial: false, covered: 604800, requests: 1000, rate: 3.3, apdex: 0.94, apdex_low: 0.93, apdex_high: 0.95, satisfied: 0.9, tolerating: 0.08,
  frustrated: 0.02, thin: false, mean: 0.02, quantiles: { '0.5': 0.01, '0.95': 0.06, '0.99': 0.2 }, error: 0.01, errors: 3, error_ratio: 0.003, good: 0.992, good_low: 0.991, good_high: 0.993,
  met: 'yes', trend: { rate: null, apdex: null, p95: null, saturated: false }, ...more,
});
const report = (rows: SLAPeriod[], more: Partial<SLAResponse> = {}): SLAResponse => ({ service: 's', period: 'week', zone: 'Europe/Berlin', t: 0.5, objective: 0.99, under: 0.5, rows, all: row(), ...more });

describe('the question', () => {
  it('has defaults', () => {
    expect(questionOf({}, 'Europe/Berlin')).toEqual({ period: 'week', count: 8, tz: 'Europe/Berlin', objective: 0.99, under: 0.5, t: null });
    expect(questionOf({ period: ['year'], count: ['-1'], objective: ['7'], under: ['x'] }, 'UTC')).toEqual(questionOf({}, 'UTC'));
  });
  it('round-trips', () => {
    const all: SLAQuestion[] = [
      { period: 'day', count: 7, tz: 'UTC', objective: 0.99, under: 0.5, t: null },
      { period: 'month', count: 12, tz: 'Asia/Kolkata', objective: 0.9995, under: 0.2, t: 0.3 },
      { period: 'week', count: 8, tz: 'UTC', objective: null, under: null, t: null },
    ];
    for (const q of all) expect(questionOf(moreOf(q, 'UTC'), 'UTC')).toEqual(q);
    expect(moreOf(all[0], 'UTC')).toEqual({ period: ['day'] });
  });
  it('reads shares as people write them', () => {
    expect(['99', '99.9 %', '99,95%', '0.99', '0.5 %', '100', '0', 'x', ''].map(parseShare)).toEqual([0.99, 0.999, 0.9995, 0.99, 0.005, undefined, undefined, undefined, undefined]);
    expect([0.99, 0.9995, 0.999].map(shareWords)).toEqual(['99 %', '99.95 %', '99.9 %']);
  });
});

describe('words', () => {
  it('say whether the objective was met, and why not known', () => {
    expect(metWords(row(), 0.99)).toMatchObject({ sign: '✓', word: 'met' });
    expect(metWords(row({ met: 'no' }), 0.99)).toMatchObject({ sign: '✕', word: 'missed' });
    expect(metWords(row({ met: 'unknown' }), 0.99).why).toContain('Between 99.1 % and 99.3 %');
    expect(metWords(row({ met: 'none' }), 0.99).word).toBe('no data');
    expect(metWords(row({ met: 'none' }), null).word).toBe('no objective');
  });
  it('give changes their sign', () => {
    const trend = (x: number | null) => row({ trend: { rate: x, apdex: null, p95: x, saturated: false } });
    expect([1.12, 0.69, 1, 4.2, null].map((x) => rateTrend(trend(x)))).toEqual(['12.0 % more', '31.0 % less', 'as before', '4.2 times as much', '']);
    expect([1.12, 0.69, 1, 4.2, null].map((x) => p95Trend(trend(x)))).toEqual(['12.0 % slower', '31.0 % faster', 'as before', '4.2 times as slow', '']);
    expect([0.02, -0.12, 0.0001, 0.003, null].map(difference)).toEqual(['+0.02', '−0.12', '± 0', '+0.003', '']);
  });
  it('tell saturation', () => {
    expect(saturatedWords(row({ trend: { rate: 0.69, apdex: -0.12, p95: 1.8, saturated: true } }), 'week')).toMatch(
      /^2026-W46: throughput was 31\.0 % less than in the week before while Apdex fell by 0\.12 and p95 was 80\.0 % slower, 60\.0 ms\..*saturated/);
  });
  it('sum up', () => {
    expect(verdict(report([row(), row()]))).toBe('The objective, 99 % good within 500 ms, was met in all 2 weeks.');
    expect(verdict(report([row(), row({ met: 'no' }), row({ met: 'unknown' })]))).toBe('The objective, 99 % good within 500 ms, was met in 1 of 3 weeks; 1 is open.');
    expect(verdict(report([row(), row({ without: 660 })], { all: row({ without: 660 }) }))).toBe('The objective, 99 % good within 500 ms, was met in all 2 weeks; 11 min without requests counted neither way.');
    expect(verdict(report([row({ met: 'no' })]))).toBe('The objective, 99 % good within 500 ms, was missed in the one week.');
    expect(verdict(report([row({ requests: 0 })]))).toBe('Nothing was measured in these periods.');
    expect(verdict(report([row()], { objective: null, under: null }))).toBe('No objective is set. Apdex over all was 0.94.');
  });
});

describe('elsewhere', () => {
  it('as CSV', () => {
    const lines = slaCsv(report([row({ worst: { name: 'a,"b"', requests: 1, apdex: 0.5, p95: 1 } })])).split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0].split(',')).toHaveLength(25);
    expect(lines[1]).toBe('2026-W46,2026-11-08T23:00:00Z,2026-11-15T23:00:00Z,false,1000,3.3,0.94,0.93,0.95,0.9,0.08,0.02,0.02,0.01,0.06,0.2,3,0.003,"a,""b""",0.992,0.991,0.993,yes,false,0');
  });
  it('as a command', () => {
    const q = questionOf({}, 'Europe/Berlin');
    expect(slaCommand('check out', undefined, q, undefined, 'http://127.0.0.1:7099')).toBe("tailscope report sla --service 'check out' --period week --count 8 --tz Europe/Berlin --objective 0.99 --under 0.5");
    expect(slaCommand('a', 'GET /x', { ...q, objective: null, t: 0.3 }, 1795150000, 'http://h:1')).toBe("tailscope report sla --service a --operation 'GET /x' --period week --count 8 --tz Europe/Berlin --t 0.3 --end 2026-11-20T04:46:40Z --server http://h:1");
  });
  it('knows zones', () => {
    expect(zones('UTC')).toContain('Europe/Berlin');
    expect(zoneOf('europe/berlin')).toBe('Europe/Berlin');
    expect(zoneOf('Middle/Earth')).toBeUndefined();
  });
});
