import { expect, test } from 'vitest';
import { aboutText, longText, sizeOf } from './sessions';
import type { BenchAccount, BenchResult, Experiment, Session } from '../shared/api/schema';
import { decode, encode, home } from '../shared/page/url';

const session = (o: Partial<Session>): Session => ({ id: 'x', kind: 'mirror', name: '', service: 'shop', start: 1000, end: null, updated: 1000, state: 'running', ...o });

test('the list says what each is about, and how much of it there is', () => {
  const account = { sent: 900 } as BenchAccount;
  const run = session({ kind: 'bench', bench: { variant: 'docs4', target: 'http://a', plan: { arrivals: 'closed' }, account } as BenchResult });
  const tried = session({ kind: 'experiment', experiment: { variable: 'workers', settings: [{ name: 'workers=8' }, { name: 'workers=1' }], stopping: { done: 3 } } as Experiment });
  expect(aboutText(run)).toBe('docs4, closed loop, http://a');
  expect(sizeOf(run)).toEqual({ n: 900, what: 'requests' });
  expect(aboutText(tried)).toBe('workers: 8, 1');
  expect(sizeOf(tried)).toEqual({ n: 3, what: 'rounds' });
});

test('how long: to now while it runs, to its end, to its last report', () => {
  expect(longText(session({}), 1042)).toBe('42 s');
  expect(longText(session({}), 1751)).toBe('12 min 31 s');
  expect(longText(session({ end: 1000 + 7384 }), 9e9)).toBe('2 h 03 min');
  expect(longText(session({ state: 'lost', updated: 1060 }), 9e9)).toBe('1 min 00 s');
  expect(longText(session({ start: null }), 5)).toBe('–');
});

test('a session is a page of its own', () => {
  const v = { ...home(), page: 'session' as const, name: 'a/b', more: { tab: ['account'], candidate: ['beta'] } };
  expect(encode(v)).toBe('/sessions/a%2Fb?tab=account&candidate=beta');
  const at = new URL(encode(v), 'http://x');
  expect(decode(at.pathname, at.search)).toEqual(v);
  expect(decode('/sessions', '').page).toBe('sessions');
});
