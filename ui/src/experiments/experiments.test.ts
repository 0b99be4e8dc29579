import { expect, test } from 'vitest';
import { aboutText, changeWords, compareView, heatView, longText, parseAmplify, parseShare, shareText, sizeOf, wholeRange, windowOf } from './experiments';
import type { Experiment } from '../shared/api/experiments';
import type { BenchAccount, BenchResult, Trial } from '../shared/api/load';
import { decode, encode, home } from '../shared/page/url';

const session = (o: Partial<Experiment>): Experiment => ({ id: 'x', kind: 'mirror', name: '', service: 'shop', start: 1000, end: null, updated: 1000, state: 'running', ...o });

test('the list says what each is about, and how much of it there is', () => {
  const account = { sent: 900 } as BenchAccount;
  const run = session({ kind: 'bench', bench: { variant: 'docs4', target: 'http://a', plan: { arrivals: 'closed' }, account } as BenchResult });
  const trial = session({ kind: 'experiment', trial: { variable: 'workers', settings: [{ name: 'workers=8' }, { name: 'workers=1' }], stopping: { done: 3 } } as Trial });
  expect(aboutText(run)).toBe('docs4, closed loop, http://a');
  expect(sizeOf(run)).toEqual({ n: 900, what: 'requests' });
  expect(aboutText(trial)).toBe('workers: 8, 1');
  expect(sizeOf(trial)).toEqual({ n: 3, what: 'rounds' });
});

test('how long: to now while it runs, to its end, to its last report', () => {
  expect(longText(session({}), 1042)).toBe('42 s');
  expect(longText(session({}), 1751)).toBe('12 min 31 s');
  expect(longText(session({ end: 1000 + 7384 }), 9e9)).toBe('2 h 03 min');
  expect(longText(session({ state: 'lost', updated: 1060 }), 9e9)).toBe('1 min 00 s');
  expect(longText(session({ start: null }), 5)).toBe('–');
});

test('the window is what the range holds of the session, on whole slots', () => {
  const on = session({ start: 1003 });
  expect(windowOf(on, { last: 3600 }, 1099)).toEqual({ start: 1000, end: 1090, whole: true });
  expect(windowOf(on, { last: 30 }, 1099)).toEqual({ start: 1060, end: 1090, whole: false });
  // A range that ends now is of the end of a session that is over.
  const over = session({ start: 1003, end: 1598, state: 'ended' });
  expect(windowOf(over, { last: 60 }, 1e9)).toEqual({ start: 1540, end: 1600, whole: false });
  expect(windowOf(over, { start: 0, end: 1e9 }, 1e9)).toEqual({ start: 1000, end: 1600, whole: true });
  expect(windowOf(over, { start: 2000, end: 3000 }, 1e9)).toBeUndefined();
  // One that has just begun is a slot long.
  expect(windowOf(on, { last: 3600 }, 1004)).toEqual({ start: 1000, end: 1010, whole: true });
});

test('a range that holds all of it', () => {
  expect(wholeRange(session({}), 1500)).toEqual({ last: 6 * 3600 });
  expect(wholeRange(session({}), 1000 + 2 * 86400)).toEqual({ last: 7 * 86400 });
  expect(wholeRange(session({ end: 1598, state: 'ended' }), 1e9)).toEqual({ start: 1000, end: 1600 });
});

test('links to a comparison and to heatmaps survive the address', () => {
  const e = session({ id: 's 1' });
  const to = { ...home(), ...compareView(e, 'control', 'candidate', { operation: 'GET /a/{id}' }) };
  const at = new URL(encode(to), 'http://x');
  expect(at.pathname).toBe('/compare');
  const back = decode(at.pathname, at.search);
  expect(back.filters).toEqual({ service: ['shop'], experiment: ['s 1'], operation: ['GET /a/{id}'], status: ['ok'] });
  expect(back.more).toEqual({ by: ['label'], label: ['variant'], a: ['control'], b: ['candidate'], family: ['mirror_duration_seconds'] });
  expect(encode({ ...home(), ...heatView(e, 'candidate', {}, 'control') })).toContain('/families/mirror_ratio?');
  expect(heatView(e, 'candidate').filters.against).toBeUndefined();
});

test('a session is a page of its own', () => {
  const v = { ...home(), page: 'experiment' as const, name: 'a/b', more: { tab: ['account'], candidate: ['beta'] } };
  expect(encode(v)).toBe('/experiments/a%2Fb?tab=account&candidate=beta');
  const at = new URL(encode(v), 'http://x');
  expect(decode(at.pathname, at.search)).toEqual(v);
  expect(decode('/experiments', '').page).toBe('experiments');
});

test('what may be typed for a share and for copies', () => {
  expect([parseShare('25'), parseShare('12.5 %'), parseShare('0,5%'), parseShare('100'), parseShare('0')]).toEqual([0.25, 0.125, 0.005, 1, 0]);
  expect([parseShare('101'), parseShare('-1'), parseShare(''), parseShare('half')]).toEqual([undefined, undefined, undefined, undefined]);
  expect([shareText(0.25), shareText(1), shareText(0.0001), shareText(null)]).toEqual(['25 %', '100 %', '0.01 %', '–']);
  expect([parseAmplify('× 2'), parseAmplify('1.5'), parseAmplify('0'), parseAmplify('x3')]).toEqual([2, 1.5, 0, 3]);
  expect([parseAmplify('-1'), parseAmplify(''), parseAmplify('two')]).toEqual([undefined, undefined, undefined]);
});

test('wishes in words', () => {
  expect(changeWords({ number: 3, share: 0.5, paused: true, shadows: { b: { using: 1, amplify: 2 } } })).toBe('pause, share 50 %, b: 1 server, b: × 2');
  expect(changeWords(undefined)).toBe('');
});
