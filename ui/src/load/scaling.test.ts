import { describe, expect, it } from 'vitest';
import { coefficient, lawAt, lawAxes, lawLine, lawSheet } from './scaling';
import type { ScalingLaw } from '../shared/api/schema';

const v = (value: number | null, low = value, high = value) => ({ value, low, high });
const law: ScalingLaw = {
  lambda: v(995.6, 990, 1001), sigma: v(0.0267, 0.02, 0.03), kappa: v(0.000769, 0.0007, 0.0008), peak_n: v(35.6, 33, 38), peak_rate: v(12341, 12000, 12700), ceiling: v(null), level: 0.95, r2: 0.99, error: 200, highest: 64, points: [], source: 'steps', sentence: '', warnings: [],
};
const point = (n: number | null, rate: number | null) => ({ n, rate, mean: null, time: null, left: false });

describe('the law', () => {
  it('is λN/(1+σ(N−1)+κN(N−1)), its peak at √((1−σ)/κ)', () => {
    expect(lawAt(law, 1)).toBeCloseTo(995.6, 6);
    const peak = Math.sqrt((1 - 0.0267) / 0.000769);
    expect(peak).toBeCloseTo(35.6, 1);
    expect(lawAt(law, peak)!).toBeGreaterThan(lawAt(law, peak * 0.9)!);
    expect(lawAt(law, peak)!).toBeGreaterThan(lawAt(law, peak * 1.1)!);
    expect(lawAt({ ...law, sigma: v(null) }, 4)).toBeNull();
  });

  it('has axes that hold its points, and the peak where it is near', () => {
    const a = lawAxes(law, [point(1, 990), point(20, 11000), point(null, 3)])!;
    expect(a.seen).toBe(20);
    expect(a.n).toBeGreaterThanOrEqual(35.6);
    expect(a.rate).toBeGreaterThanOrEqual(12341);
    expect(lawAxes(law, [point(1, 990), point(2, 1900)])!.n).toBeLessThan(4);
    expect(lawAxes(undefined, [])).toBeUndefined();
    expect(lawLine(law, 0, 10, 10)).toHaveLength(11);
    expect(lawLine(law, 0, 10, 10)[0]).toEqual([0, 0]);
  });

  it('has a table that says what is missing', () => {
    const rows = lawSheet(law).rows.map((r) => r.map((c) => c.text));
    expect(rows.find((r) => r[0] === 'ceiling')![1]).toBe('none');
    expect(rows.find((r) => r[0] === 'peak')!.slice(1, 3)).toEqual(['12,341/s', '12,000/s to 12,700/s']);
    const half = lawSheet({ ...law, peak_n: v(40, 30, null) }).rows.find((r) => r[0].text === 'peak at')!;
    expect(half[2].text).toBe('30.0 at a time to unbounded');
  });

  it('writes small coefficients out', () => {
    expect([0, 0.0267, 0.000769, 1.234e-6, null].map(coefficient)).toEqual(['0', '0.0267', '0.000769', '1.23 × 10⁻⁶', '–']);
  });
});
