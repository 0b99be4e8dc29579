import { expect, test } from 'vitest';
import { answersCsv, exampleKeys, markedSecrets, matters, showsOf } from './answers';
import type { MirrorDifference, Session } from '../shared/api/schema';
import { accountCsv, sessionCommand } from './export';

const row = (o: Partial<MirrorDifference>): MirrorDifference => ({ shadow: 'candidate', operation: 'GET /', place: 'body', compared: 10, raw: 1, noise: null, noise_of: 0, p: null, real: false, ...o });

test('real differences first, then those that differ most', () => {
  const rows = [row({ place: 'a', raw: 9 }), row({ place: 'b', raw: 2, real: true }), row({ place: 'c', raw: 5 }), row({ shadow: 'other' })];
  expect(showsOf(rows, 'candidate', '').map((r) => r.place)).toEqual(['b', 'a', 'c']);
  expect(showsOf(rows, 'candidate', 'GET').length).toBe(3);
  expect(showsOf(rows, 'candidate', 'B').map((r) => r.place)).toEqual(['b']);
});

test('secrets that were taken out are told apart', () => {
  expect(markedSecrets('token=redacted-0a1b2c3d4e&x')).toEqual([{ text: 'token=', secret: false }, { text: 'redacted-0a1b2c3d4e', secret: true }, { text: '&x', secret: false }]);
  expect(markedSecrets('redacted-short')).toEqual([{ text: 'redacted-short', secret: false }]);
  expect(markedSecrets('')).toEqual([{ text: '', secret: false }]);
});

test('exports', () => {
  expect(answersCsv([row({ place: 'header a, b' })])).toBe('shadow,operation,place,compared,differ,noise,noise_of,p,real\ncandidate,GET /,"header a, b",10,1,,0,,false\n');
  expect(sessionCommand('a b', { start: 1, end: 2, whole: false }, 'worse:3%', 'http://h:1')).toBe("tailscope report session 'a b' --start 1 --end 2 --allow worse:3% --server http://h:1");
  expect(sessionCommand('x', { start: 1, end: 2, whole: true }, '', 'http://127.0.0.1:7099')).toBe('tailscope session show x');
  const e = { mirror: { requests: 10, skipped: { share: 4 }, failed: {}, shadows: [{ name: 'c', account: { offered: 6, queued: 0, dropped: { refused: 1 }, mirrored: 5, waiting: 0, failed: {}, answered: 5, pairing: 0, paired: 5, unpaired: 0, buffered: 0, buffer_bound: 0 } }] } } as unknown as Session;
  expect(accountCsv(e)).toContain('clients,chosen,6\n');
  expect(accountCsv(e)).toContain('c,dropped refused,1\n');
});

test('rows keep their places while counts grow, and noise is apart', () => {
  const at = (n: number) => showsOf([row({ place: 'a', raw: n }), row({ place: 'b', raw: 91, compared: 100 }), row({ place: 'c', raw: 88, compared: 100 })], 'candidate', '').map((r) => r.place);
  expect(at(9)).toEqual(at(9.3));
  expect([row({ real: true, noise: 0 }), row({ noise: null }), row({ noise: 3 })].map(matters)).toEqual([true, true, false]);
});

test('examples have keys of their own', () => {
  const x = { id: '1', time: 0, shadow: 'c', operation: 'o', request: 'GET /', places: [{ place: 'status', reference: '', shadow: '' }] };
  expect(new Set(exampleKeys([x, x, { ...x, places: [] }, { ...x, id: '2' }])).size).toBe(4);
});
