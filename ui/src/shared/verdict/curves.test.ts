import { describe, expect, it } from 'vitest';
import { cdfOf, quantileScale, ratioAxis, ratiosOf, sharesAt, tailFloor } from './curves';
import type { CompareCurve } from '../api/schema';

const curve: CompareCurve = {
  like_for_like: true, values: [0, 0.001, 0.01, 0.1, 1, 10], a: [0, 0, 0.2, 0.8, 1, 1], b: [0, 0, 0.1, 0.7, 0.995, 1],
  ps: [0.5, 0.9, 0.99, null], quantiles_a: [0.03, 0.3, 0.9, 1], quantiles_b: [0.04, 0.4, 1, 1], ratio: [1.33, 1.33, 1.1, 1], low: [1.2, 1.1, null, 1], high: [1.5, 1.6, 1.4, 1],
};

describe('cdfOf', () => {
  const c = cdfOf(curve)!;
  it('begins before the first request and ends with the last', () => expect([c.low, c.high, c.points.length]).toEqual([0.001, 10, 5]));
  it('reads shares between points', () => {
    expect(sharesAt(c, 0.1)).toEqual({ a: 0.8, b: 0.7 });
    const s = sharesAt(c, Math.sqrt(0.1 * 0.01));
    expect([s.a, s.b]).toEqual([expect.closeTo(0.5, 9), expect.closeTo(0.4, 9)]);
    expect(sharesAt(c, 99)).toEqual({ a: 1, b: 1 });
  });
  it('shows every decade of the tail that holds a request', () => expect(tailFloor(c)).toBe(0.001));
  it('draws nothing of nothing', () => expect(cdfOf({ ...curve, values: [], a: [], b: [] })).toBeUndefined());
});

describe('ratiosOf', () => {
  it('places every further nine equally far', () => {
    const s = quantileScale([0.9, 0.99, 0.999]);
    expect([s.at(0.9), s.at(0.99), s.at(0.999)].map((x) => Number(x.toFixed(9)))).toEqual([0, 0.5, 1]);
    expect(s.of(s.at(0.97))).toBeCloseTo(0.97, 9);
  });
  it('leaves out what is unknown, but not what is unbounded', () => expect(ratiosOf(curve).map((r) => [r.p, r.ratio, r.low])).toEqual([[0.5, 1.33, 1.2], [0.9, 1.33, 1.1], [0.99, 1.1, null]]));
  it('has an axis around 1', () => {
    const { span, ticks } = ratioAxis(ratiosOf(curve));
    expect(span).toBeGreaterThan(Math.log(1.6));
    expect(ticks).toContain(1);
    ticks.forEach((t, i) => expect(t * ticks[ticks.length - 1 - i]).toBeCloseTo(1, 9));
  });
});
