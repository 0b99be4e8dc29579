import { describe, expect, it } from 'vitest';
import { allowances, differenceScale, effectWords, figure, marginWords, needs, needsOnce, sideTime, planned, ratioScale, twoDigits, verdictSign, warningText } from './words';
import type { CompareFigure, CompareMeasure, Verdict } from '../api/schema';

const of = (effect: number | null, low: number | null, high: number | null, verdict: Verdict, o: Partial<CompareFigure> = {}): CompareFigure =>
  ({ a: 1, b: 1, effect, low, high, p: 0.01, verdict, error: 0.02, needed: null, needed_seconds: null, ...o });
const p99 = { name: 'p99', scale: 'ratio' } as const;
const errors = { name: 'errors', scale: 'difference' } as const;
const apdex = { name: 'apdex', scale: 'difference' } as const;
const measure = (m: { name: string; scale: 'ratio' | 'difference' }, f: CompareFigure): CompareMeasure => ({ ...m, raw: f, verdict: f.verdict, adjusted_p: 0.01, sentence: '' });

describe('effectWords', () => {
  it.each([
    [p99, of(0.62, 0.58, 0.67, 'faster'), '38 % faster', '33 … 42 %'],
    [p99, of(1.38, 1.33, 1.42, 'slower'), '38 % slower', '33 … 42 %'],
    [p99, of(2.6, 2.1, 3.25, 'slower'), '2.6 times as slow', '2.1 … 3.3'],
    [p99, of(1.012, 0.97, 1.056, 'no evidence'), '+1.2 %', '−3 % … +5.6 %'],
    [p99, of(1.012, null, 1.056, 'no evidence'), '+1.2 %', 'unknown … +5.6 %'],
    [p99, of(0.8, null, 0.9, 'faster'), '20 % faster', '10 % or more'],
    // What is left of a very large effect is said in times: in per cent all of them are 100.
    [p99, of(1 / 5012, 1 / 6437, 1 / 3911, 'faster'), '5,000 times as fast', '3,900 … 6,400'],
    [p99, of(1 / 5012, null, 1 / 3911, 'faster'), '5,000 times as fast', '3,900 or more'],
    [p99, of(1 / 5012, 0, 1 / 3911, 'faster'), '5,000 times as fast', '3,900 or more'],
    [p99, of(0.05, 0.0002, 0.2, 'faster'), '20 times as fast', '5 … 5,000'],
    [p99, of(0.051, 0.0002, 0.2, 'faster'), '95 % faster', '80 … 99.98 %'],
    [p99, of(1_234_567, 999.4, null, 'slower'), '1,200,000 times as slow', '999 or more'],
    [p99, of(100.4, 2.4, 999.6, 'slower'), '100 times as slow', '2.4 … 1,000'],
    [p99, of(null, null, null, 'too little data'), '–', ''], [p99, of(1.38, null, null, 'too little data'), '–', ''],
    [errors, of(0.004, 0.002, 0.006, 'more errors'), '0.4 points higher', '0.2 … 0.6 points'],
    [apdex, of(-0.05, -0.07, -0.03, 'lower'), '0.05 lower', '0.03 … 0.07'],
  ])('%o', (m, f, size, interval) => expect(effectWords(m, f)).toEqual({ size, interval }));
});

it('says every verdict with a sign', () => {
  const signs = ['regression', 'improvement', 'mixed', 'same', 'no evidence', 'too little data', 'slower', 'faster'].map((w) => verdictSign(w).sign);
  expect(new Set(signs).size).toBe(8);
  expect(verdictSign('lower', 'worse')).toEqual({ sign: '↓', tone: 'worse' });
});

it('writes figures in their own unit', () => {
  expect(figure(p99, 0.21, 'seconds')).toBe('210 ms');
  expect(figure(errors, 0.0123, 'seconds')).toBe('1.2 %');
  expect(figure(apdex, 0.9412, 'seconds')).toBe('0.941');
  expect(figure({ name: 'rate', scale: 'ratio' }, 1.67, 'seconds')).toBe('1.67/s');
  expect(figure(p99, null, 'seconds')).toBe('–');
  expect([0.12345, 9.94, 99.97, 42.4].map(twoDigits)).toEqual(['0.12', '9.9', '100', '42']);
  expect([40, 1500, 7200, 200_000].map(planned)).toEqual(['40 s', '25 min', '2 h', '3 days']);
  expect([marginWords(p99, 0.05), marginWords(errors, 0.05), marginWords(apdex, 0.05)]).toEqual(['5 %', '0.1 points', '0.01']);
});

it('says how much more data it takes', () => {
  expect(needs(measure(p99, of(1, 0.9, 1.1, 'no evidence', { needed: 2.5, needed_seconds: 4500 })))).toBe('needs about 75 min a side');
  expect(needs(measure(p99, of(1, 0.9, 1.1, 'no evidence', { needed: 96, needed_seconds: 345600, needed_windows: 288 })))).toBe('needs about 288 windows a side');
  expect(needs(measure(p99, of(1, 0.9, 1.1, 'no evidence', { needed: 0.8, needed_seconds: 4500 })))).toBe('');
  expect(needs(measure(p99, of(null, null, null, 'too little data', { short: 'side B: 12 of 20 slots', needed: 2, needed_seconds: 200, judged_at: 1_800_000_000 })))).toMatch(/^the newest stretch is still coming, and can be judged at Fri 15 Jan /);
  expect(needs(measure(p99, of(null, null, null, 'too little data', { short: 'side B: 12 of 20 slots', needed: 2, needed_seconds: 200 })))).toBe('side B: 12 of 20 slots; about 4 min a side may do');
  const little = (short: string) => measure(p99, of(null, null, null, 'too little data', { short }));
  expect(needsOnce([little('28 slots say no more than 0.9 independent ones'), little('28 slots say no more than 1.2 independent ones'), little('side B: 12 of 20 slots')])).toEqual(['28 slots say no more than 0.9 independent ones', '', 'side B: 12 of 20 slots']);
  expect(needs(measure(p99, of(1.3, 1.2, 1.4, 'slower', { needed: 3, needed_seconds: 4500 })))).toBe('');
});

it('says a warning as a sentence', () => {
  expect(warningText({ code: 'mix', text: '12 % of the requests are of other operations' })).toBe('12 % of the requests are of other operations.');
  expect(warningText({ code: 'season', text: 'the sides are of different hours: compare with the same hours of earlier days, b=1/2&days=4 (tailscope compare --b 1..2)' }))
    .toBe('The sides are of different hours: compare with the same hours of earlier days.');
});

describe('ratioScale', () => {
  it('is symmetrical, and holds every interval', () => {
    const s = ratioScale([measure(p99, of(1.4, 1.3, 1.5, 'slower')), measure(p99, of(0.5, 0.45, 0.6, 'faster'))], 0.05);
    expect(s.at(1)).toBe(0.5);
    expect(s.at(2) + s.at(0.5)).toBeCloseTo(1, 12);
    expect(s.at(0.45)).toBeGreaterThan(0);
    expect(s.ticks).toEqual([0.5, 1, 2]);
  });
  it('shows the margin where nothing moved, and cuts what is far out', () => {
    expect(ratioScale([measure(p99, of(1, 0.999, 1.001, 'same'))], 0.05).at(1.05)).toBeLessThan(0.8);
    expect(ratioScale([measure(p99, of(1, 1e-9, 1e9, 'no evidence'))], 0.05).at(1e9)).toBe(1);
  });
  it('opens for an effect that is itself far out', () => {
    const s = ratioScale([measure(p99, of(0.01, 0.008, 0.03, 'faster'))], 0.05);
    expect(s.at(0.008)).toBeGreaterThan(0);
    expect(s.at(0.03)).toBeLessThan(0.5);
    expect(s.ticks).toEqual([1 / 30, 1, 30]);
  });
  it('leaves differences to scales of their own', () => {
    const s = differenceScale(measure(errors, of(0.01, 0.005, 0.02, 'higher')), 0.05);
    expect(s.at(0)).toBe(0.5);
    expect(s.at(0.02)).toBeLessThan(1);
    expect(s.at(-0.001)).toBeLessThan(0.5);
  });
});

it('a side is one stretch, or so many windows', () => {
  const night = (day: number) => ({ start: day * 86400, end: day * 86400 + 900 });
  expect(sideTime({ start: 0, end: 900 }, 'UTC')).toBe('Thu 1 Jan 00:00–00:15 UTC');
  expect(sideTime({ start: 0, end: 3 * 86400, windows: [0, 1, 2, 3].map(night) }, 'UTC')).toBe('4 windows, 1 h in all');
  expect(sideTime({ start: 0, end: 900, windows: [night(0)] }, 'UTC')).toBe('1 window, 15 min in all');
});

it('says once what most measures are allowed', () => {
  const [a, b] = ['an increase of 3 % is allowed', 'an increase of 5 % is allowed'];
  const of = (...allowed: (string | undefined)[]) => {
    const measures = allowed.map((x) => ({ allowed: x }));
    const { common, own } = allowances(measures);
    return [common, ...measures.map(own)];
  };
  expect(of(a, a, b)).toEqual(['An increase of 3 % is allowed, unless a row says otherwise.', '', '', b]);
  expect(of(a, a, undefined)).toEqual(['An increase of 3 % is allowed.', '', '', '']);
  expect(of(a, b)).toEqual(['', a, b]);
  expect(of(undefined)).toEqual(['', '']);
});
