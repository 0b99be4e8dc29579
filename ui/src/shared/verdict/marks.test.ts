import { describe, expect, it } from 'vitest';
import { ago, chosen, leadsTo, servicesOf, short, told, verdictWords, type MarkVerdict } from './marks';
import type { Mark } from '../api/types';

const verdict = (v: Partial<MarkVerdict>): MarkVerdict => ({ state: 'final', judged: 1, next: null, window: 3600, services: [], ...v });

describe('marks', () => {
  it('says a verdict and when', () => {
    const clock = (t: number) => `t${t}`;
    expect(verdictWords(undefined, clock)).toEqual({ word: '', said: 'not judged', note: '' });
    expect(verdictWords(verdict({ state: 'waiting', next: 300 }), clock)).toEqual({ word: 'waiting', said: 'waiting', note: 'judged at t300' });
    expect(verdictWords(verdict({ state: 'early', verdict: 'improvement' }), clock)).toEqual({ word: 'improvement', said: 'improvement', note: 'so far' });
    expect(verdictWords(verdict({ verdict: 'same' }), clock)).toEqual({ word: 'same', said: 'same', note: '' });
  });

  it('has a sign only once there is a verdict', () => {
    expect(told(undefined)).toBe('');
    expect(told(verdict({ state: 'waiting' }))).toBe('');
    expect(told(verdict({ state: 'early', verdict: 'regression', sentence: 'p99 of shop is 9 % slower (95 % interval 3–15 %)' }))).toBe('\n! regression so far: p99 of shop is 9 % slower');
  });

  it('cuts a sentence at its interval', () => {
    expect(short('p99 of shop is 38 % faster (95 % interval 33–42 %); most of all p99 of GET /a is 62 % faster (95 % interval 60–64 %)')).toBe('p99 of shop is 38 % faster');
    expect(short('p99 of shop is 38 % faster (95 % interval 33–42 %)', 'shop')).toBe('p99 38 % faster');
    expect(short('p99 of shop takes 3.1 times as long (95 % interval 2.1–4.7)', 'shop')).toBe('p99 takes 3.1 times as long');
    expect(short('Too little data to judge a (b)')).toBe('Too little data to judge a (b)');
    expect(short(undefined)).toBe('');
  });

  it('says how long ago', () => {
    expect([10, 100, 3000, 7200, 200000].map((s) => ago(1e6 - s, 1e6))).toEqual(['now', '2 min ago', '50 min ago', '2 h ago', '2 d ago']);
    expect(ago(1e6 + 300, 1e6)).toBe('in 5 min');
  });

  it('filters by service and words, the newest first', () => {
    const marks: Mark[] = [
      { id: '1', time: 10, name: 'deploy', service: 'shop', verdict: verdict({ verdict: 'regression' }) },
      { id: '2', time: 30, name: 'kernel' }, { id: '3', time: 20, name: 'deploy', service: 'bank' },
    ];
    const ids = (service: string, search: string) => chosen(marks, service, search).map((m) => m.id);
    expect(ids('', '')).toEqual(['2', '3', '1']);
    expect(ids('shop', '')).toEqual(['2', '1']);
    expect(ids('', 'Regression  deploy')).toEqual(['1']);
    expect(servicesOf(marks)).toEqual(['bank', 'shop']);
    expect([leadsTo(marks[0]), leadsTo(marks[1]), leadsTo(marks[1], 'bank')]).toEqual(['shop', '', 'bank']);
  });
});
