import { expect, test } from 'vitest';
import { compareView, heatView, wholeRange, windowOf } from './session';
import { decode, encode, home } from './url';
import type { Session } from '../api/schema';

const session = (o: Partial<Session>): Session => ({ id: 'x', kind: 'mirror', name: '', service: 'shop', start: 1000, end: null, updated: 1000, state: 'running', ...o });

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
