import { expect, test } from 'vitest';
import type { MirrorAccount, MirrorState } from '../shared/api/schema';
import { causeName, causes, chosen, countsOf, gaps, ledger, parts, Rates, steadyRate } from './account';

const account = (o: Partial<MirrorAccount> = {}): MirrorAccount => ({
  offered: 100, queued: 3, dropped: { queue_full: 7, refused: 2 }, mirrored: 88, waiting: 4, failed: { timed_out: 5 }, answered: 79, pairing: 2, paired: 76, unpaired: 1, buffered: 0, buffer_bound: 1, ...o,
});

test('the rows of the account add up to the sums, one after the other', () => {
  const a = account();
  let left = 0;
  for (const r of ledger([a])) {
    if (r.kind === 'sum') {
      if (r.key !== 'offered') expect(r.of(a), r.key).toBe(left);
      left = r.of(a);
    } else left -= r.of(a);
  }
  expect(gaps(a)).toEqual([0, 0, 0]);
  expect(gaps({ ...a, paired: 75 })).toEqual([0, 0, 1]);
  expect(parts(a).reduce((n, p) => n + p.n, 0)).toBe(a.offered);
});

test('causes of all shadows make the rows, in an order that does not move', () => {
  const b = account({ dropped: { refused: 900 }, failed: {} });
  const keys = ledger([account(), b]).map((r) => r.key);
  expect(keys).toEqual(['offered', 'dropped queue_full', 'dropped refused', 'queued', 'mirrored', 'failed timed_out', 'waiting', 'answered', 'unpaired', 'pairing', 'paired']);
  expect(ledger([b, account()]).map((r) => r.key)).toEqual(keys);
  expect(ledger([account(), b])[1].of(b)).toBe(0);
  expect(causes([{ a: 0 }, undefined])).toEqual([]);
  expect(causeName('some_new_cause')).toBe('some new cause');
});

test('rates are of the last looks', () => {
  const r = new Rates(10);
  expect(r.of('n')).toBeNull();
  r.look(100, { n: 5 });
  expect(r.of('n')).toBeNull();
  for (let t = 101; t <= 130; t++) r.look(t, { n: t < 120 ? 5 : 5 + 30 * (t - 119) });
  expect(r.of('n')).toBe(30);
  r.look(130, { n: 1e9 }); // the same report again
  expect(r.of('n')).toBe(30);
  expect(r.of('none')).toBe(0);
  r.look(3, { n: 1 }); // another program
  expect(r.of('n')).toBeNull();
  expect([steadyRate(null), steadyRate(0), steadyRate(0.01), steadyRate(4.26), steadyRate(1234.5)]).toEqual(['–', '0', '< 0.1', '4.3', '1,235']);
});

test('all counts of a state have a rate', () => {
  const m = {
    requests: 120, skipped: { share: 15, unsafe: 5 }, failed: { reset: 2 }, shadows: [{ name: 'candidate', account: account() }],
  } as unknown as MirrorState;
  expect(chosen(m)).toBe(100);
  const c = countsOf(m);
  expect(c).toMatchObject({ requests: 120, chosen: 100, 'skipped share': 15, 'failed reset': 2, 'candidate/offered': 100, 'candidate/dropped queue_full': 7, 'candidate/paired': 76 });
  expect(c['candidate/queued']).toBeUndefined();
});
