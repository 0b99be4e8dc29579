import { describe, expect, it } from 'vitest';
import { coveredOf, curveOf, curvePoints, besideVerdict, figures, judgedSides, partsOf, spanOf, windowsAround, type Side } from './sides';
import { ratioWords } from '../shared/verdict/words';

it('windows meet at the mark and end at the present', () => {
  expect(windowsAround(1000, 600, 5000)).toEqual({ slot: 10, before: { start: 400, end: 1000 }, after: { start: 1000, end: 1600 } });
  // A mark within a slot: that slot is in neither.
  expect(windowsAround(1003, 600, 1207)).toEqual({ slot: 10, before: { start: 400, end: 1000 }, after: { start: 1010, end: 1200 } });
  expect(windowsAround(1000, 600, 900).after).toEqual({ start: 1000, end: 1000 });
});

it('windows are those of the verdict, and each figure stands once', () => {
  const sides = { before: { start: 400, end: 1000 }, after: { start: 1020, end: 1320 } };
  const final = { state: 'final', step: 10 } as const;
  expect(judgedSides(final, [sides], 5000)).toEqual({ windows: { slot: 10, ...sides }, widened: false, why: '' });
  const rows = figures({ count: 1, errors: 0, seconds: 1, group: undefined }, { count: 1, errors: 0, seconds: 1, group: undefined });
  expect(besideVerdict(rows, [{ name: 'p50' }, { name: 'p95' }, { name: 'p99' }, { name: 'errors' }]).map((r) => r.name)).toEqual(['Rate', 'Mean']);
  expect(besideVerdict(rows, [])).toEqual(rows);
});

it('windows of an old verdict are widened to the slots that are kept', () => {
  const final = { state: 'final', step: 10 } as const;
  const sides = { before: { start: 36430, end: 39610 }, after: { start: 39630, end: 43210 } };
  const old = (days: number) => judgedSides(final, [sides], 36430 + days * 86400);
  expect(old(1)).toMatchObject({ windows: sides, widened: false });
  // The slots of a minute that hold the mark and what settles are in neither.
  expect(old(3)).toEqual({ windows: { slot: 60, before: { start: 36420, end: 39600 }, after: { start: 39660, end: 43260 } }, widened: true, why: '' });
  const whole = { before: { start: 36000, end: 39600 }, after: { start: 39660, end: 43260 } };
  expect(judgedSides(final, [whole], 3 * 86400)).toEqual({ windows: { slot: 60, ...whole }, widened: false, why: '' });
  expect(old(40)).toMatchObject({ windows: { slot: 600 }, widened: true });
  expect(judgedSides(final, [{ before: { start: 37000, end: 39610 }, after: { start: 39630, end: 39900 } }], 200 * 86400)).toEqual({ widened: false, why: expect.stringMatching(/^slots of 1 h,/) });
});

it('where what is shown is not of the sides that were judged, it says why', () => {
  const sides = { before: { start: 400, end: 1000 }, after: { start: 1020, end: 1320 } };
  const empty = { before: { start: 400, end: 400 }, after: { start: 1020, end: 1320 } };
  for (const [state, step, of, why] of [
    ['waiting', 10, [undefined], /no verdict yet/], ['provisional', 1, [sides], /slots of a second/], ['early', 10, [sides, sides], /each environment/],
    ['final', 10, [undefined], /too little data/], ['final', 10, [empty], /too little data/],
  ] as const) {
    const got = judgedSides({ state, step }, of, 5000);
    expect([state, got.windows, got.widened]).toEqual([state, undefined, false]);
    expect(got.why).toMatch(why);
  }
  expect(judgedSides(undefined, [], 5000).why).toMatch(/could not be read/);
});

it('windows lie on slots that are kept, and are not cut into too many', () => {
  const day = 86400;
  const now = 400 * day;
  for (const [age, length, slot] of [
    [60, 1800, 10], [3600, 6 * 3600, 60], [3600, 7 * day, 600], [2 * day, 1800, 60], [2 * day - 3600, 1800, 10], [40 * day, 300, 600], [200 * day, 300, 3600],
  ] as const) {
    const w = windowsAround(now - age + 7, length, now);
    expect([age, length, w.slot]).toEqual([age, length, slot]);
    for (const t of [w.before.start, w.before.end, w.after.start, w.after.end]) expect(t % slot).toBe(0);
    expect(w.after.start - w.before.end).toBe(slot);
    expect(w.before.end - w.before.start).toBe(Math.max(length, slot));
  }
});

it('ratios are said in words', () => {
  expect([[1, 1.5], [1, 0.62], [1, 3.2], [1, 1], [0, 2], [2, 0], [0, 0], [null, 1]].map(([a, b]) => ratioWords(a, b, 'slower', 'faster'))).toEqual([
    '50.0 % slower', '38.0 % faster', '3.2 times as slow', 'as before', 'slower from none', 'faster to none', 'as before', '',
  ]);
});

it('figures stand beside each other', () => {
  const side = (count: number, errors: number, p: number): Side => ({ count, errors, seconds: 100, group: { labels: {}, count, sum: 1, mean: p, min: 0, max: 1, quantiles: { '0.5': p, '0.95': 2 * p, '0.99': 3 * p }, error: 0 } });
  expect(figures(side(1000, 10, 0.01), side(500, 20, 0.02))).toEqual([
    { name: 'Rate', before: '10.0 req/s', after: '5.00 req/s', change: '50.0 % less' },
    { name: 'p50', before: '10.0 ms', after: '20.0 ms', change: '2 times as slow' },
    { name: 'p95', before: '20.0 ms', after: '40.0 ms', change: '2 times as slow' },
    { name: 'p99', before: '30.0 ms', after: '60.0 ms', change: '2 times as slow' },
    { name: 'Mean', before: '10.0 ms', after: '20.0 ms', change: '2 times as slow' },
    { name: 'Errors', before: '1.0 %', after: '4.0 %', change: '4 times as much' },
  ]);
  expect(figures({ count: 0, errors: 0, seconds: 0, group: undefined }, side(1, 0, 1))[0]).toMatchObject({ before: '–', change: '' });
});

describe('curves', () => {
  it('are shares, whatever the number of requests', () => {
    const few = curveOf([{ low: 1, high: 2, count: 3 }, { low: 2, high: 4, count: 1 }], 4);
    const many = curveOf([{ low: 1, high: 2, count: 300 }, { low: 2, high: 4, count: 100 }], 400);
    expect(few).toEqual(many);
    expect(few.steps.map((s) => s.share)).toEqual([0.75, 0.25]);
    expect(spanOf([few, many])).toMatchObject({ low: 1, high: 4 });
    expect(spanOf([curveOf([], 0)])).toBeUndefined();
  });
  it('of wider buckets are as high as those of two narrow ones', () => {
    const narrow = curveOf([{ low: 1, high: 2, count: 1 }, { low: 2, high: 4, count: 1 }], 2);
    const wide = curveOf([{ low: 1, high: 4, count: 2 }], 2);
    expect(wide.steps[0].density).toBeCloseTo(narrow.steps[0].density, 12);
  });
  it('fall to the ground in gaps', () => {
    const c = curveOf([{ low: 1, high: 2, count: 1 }, { low: 4, high: 8, count: 1 }], 2);
    expect(curvePoints(c).map(([x, d]) => [Number(x.toFixed(3)), d > 0])).toEqual([[1, false], [1, true], [2, false], [4, true], [8, false]]);
    expect(curvePoints({ steps: [] })).toEqual([]);
  });
});

it('parts are seconds per request', () => {
  const d = (total: number, app: number, db: number) => ({ total, components: [{ component: 'app', seconds: app }, { component: 'db', seconds: db }, { component: 'cache', seconds: 0 }] }) as never;
  expect(partsOf(d(10, 1, 5), d(20, 2, 2))).toEqual([{ component: 'app', before: 0.1, after: 0.1 }, { component: 'db', before: 0.5, after: 0.1 }]);
  expect(partsOf(undefined, d(10, 1, 0))).toEqual([{ component: 'app', before: null, after: 0.1 }]);
});

it('a window in which the data begin is as long as they are', () => {
  const w = { start: 0, end: 600 };
  const t = (count: number[]) => ({ times: count.map((_, i) => i * 60), groups: [{ count }] });
  expect(coveredOf(w, t([0, 0, 5, 0, 1, 1, 1, 1, 1, 1]))).toBe(480);
  expect(coveredOf(w, t([5, 0]))).toBe(600);
  expect(coveredOf(w, t([0, 0]))).toBe(600);
  expect(coveredOf(w, undefined)).toBe(600);
});
