import { describe, expect, it } from 'vitest';
import { short, told, verdictWords } from './marks';
import type { MarkVerdict } from '../api/schema';

const verdict = (v: Partial<MarkVerdict>): MarkVerdict => ({ state: 'final', judged: 1, first: 1, step: 10, next: null, window: 3600, services: [], ...v });

describe('marks', () => {
  it('says a verdict and when', () => {
    const clock = (t: number) => `t${t}`;
    expect(verdictWords(undefined, clock)).toEqual({ word: '', said: 'not judged', note: '' });
    expect(verdictWords(verdict({ state: 'waiting', next: 300 }), clock)).toEqual({ word: 'waiting', said: 'waiting', note: 'will be judged at t300' });
    expect(verdictWords(verdict({ state: 'early', verdict: 'improvement' }), clock)).toEqual({ word: 'improvement', said: 'improvement', note: 'so far' });
    const after = { start: 100, end: 140 };
    const services = [{ service: 'shop', verdict: 'regression', sentence: '', before: after, after, measures: [], operations: [], tenants: [], tenants_judged: 0, cohorts: [], cohorts_judged: 0, together: [], shapes: [], warnings: [] }] as MarkVerdict['services'];
    expect(verdictWords(verdict({ state: 'provisional', verdict: 'regression', services }), clock).note).toBe('provisional, from 40 s of one-second slots');
    expect(verdictWords(verdict({ verdict: 'same' }), clock)).toEqual({ word: 'same', said: 'same', note: '' });
  });

  it('has a sign only once there is a verdict', () => {
    expect(told(undefined)).toBe('');
    expect(told(verdict({ state: 'waiting' }))).toBe('');
    expect(told(verdict({ state: 'early', verdict: 'regression', sentence: 'p99 of shop is 9 % slower (95 % interval 3 … 15 %)' }))).toBe('\n! regression so far: p99 of shop is 9 % slower');
  });

  it('cuts a sentence at its interval', () => {
    expect(short('p99 of shop is 38 % faster (95 % interval 33 … 42 %); most of all p99 of GET /a is 62 % faster (95 % interval 60 … 64 %)')).toBe('p99 of shop is 38 % faster');
    expect(short('p99 of shop is 38 % faster (95 % interval 33 … 42 %)', 'shop')).toBe('p99 38 % faster');
    expect(short('p99 of shop takes 3.1 times as long (95 % interval 2.1 … 4.7)', 'shop')).toBe('p99 takes 3.1 times as long');
    expect(short('Too little data to judge a (b)')).toBe('Too little data to judge a (b)');
    expect(short(undefined)).toBe('');
  });
});
