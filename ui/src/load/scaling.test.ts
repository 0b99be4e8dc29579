import { describe, expect, it } from 'vitest';
import { coefficient, configurationName, configurationsSheet, hourColour, lawAt, lawAxes, lawLine, lawSheet, responseLine } from './scaling';
import type { ScalingConfiguration, ScalingLaw } from '../shared/api/schema';

const v = (value: number | null, low = value, high = value) => ({ value, low, high });
const law: ScalingLaw = {
  lambda: v(995.6, 990, 1001), sigma: v(0.0267, 0.02, 0.03), kappa: v(0.000769, 0.0007, 0.0008), peak_n: v(35.6, 33, 38), peak_rate: v(12341, 12000, 12700), ceiling: v(null), level: 0.95, r2: 0.99, error: 200, highest: 64, points: [], source: 'steps', sentence: '', warnings: [],
};
const point = (n: number | null, rate: number | null) => ({ n, rate, mean: null, time: null, left: false, configuration: -1 });

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
    expect(rows.find((r) => r[0] === 'peak')!.slice(1, 3)).toEqual(['12,341/s', '12,000 … 12,700/s']);
    const half = lawSheet({ ...law, peak_n: v(40, 30, null) }).rows.find((r) => r[0].text === 'peak at')!;
    expect(half[2].text).toBe('30.0 at a time or more');
  });

  it('writes small coefficients out', () => {
    expect([0, 0.0267, 0.000769, 1.234e-6, null].map(coefficient)).toEqual(['0', '0.0267', '0.000769', '1.23 × 10⁻⁶', '–']);
  });
});

describe('configurations', () => {
  const of = (name: string, more: Partial<ScalingConfiguration> = {}): ScalingConfiguration => ({ start: 0, end: 60, marks: [], name, warnings: [{ code: 'law', text: 'too little' }], requests: 10, rate: 2, mean: 0.1, quantiles: { p50: 0.1, p95: 0.2, p99: 0.3 }, errors: 0.02, apdex: 0.9, cpu: 1.5, memory: 2e9, ...more });

  it('are named by the marks that they began with', () => {
    expect(configurationName(of(''), [of('')])).toBe('the whole range');
    expect(configurationName(of(''), [of(''), of('cache')])).toBe('before cache');
    expect(configurationName(of('cache'), [of(''), of('cache')])).toBe('with cache');
  });

  it('have a table with what the service takes, where that is known', () => {
    const answer = { start: 0, end: 60, step: 60, points: [], configurations: [of(''), of('cache')], warnings: [], cpu: 'process.cpu.time', memory: 'process.memory.usage' };
    const rows = configurationsSheet(answer).rows.map((r) => r.map((c) => c.text));
    expect(rows[1].slice(1)).toEqual(['10', '2.00/s', '100 ms', '100 ms', '200 ms', '300 ms', '2.0 %', '0.90', '1.50 cores', '2.00 GB', '', '']);
    expect(configurationsSheet({ ...answer, cpu: undefined, memory: undefined }).head).not.toContain('CPU');
  });

  it('say by how much each mark changed the mean', () => {
    const change = (before: number, after: number) => ({ before, after, covered: 1, ratio: v(null), sentence: 's' });
    const answer = { start: 0, end: 60, step: 60, points: [], warnings: [], configurations: [of(''), of('a', { change: change(0.1, 0.098) }), of('b', { change: change(0.098, 0.104) })] };
    expect(configurationsSheet(answer).rows.map((r) => r.at(-2)?.text)).toEqual(['', '−2.00 ms', '+6.00 ms']);
  });

  it('have a law of response time over throughput: N over X(N)', () => {
    const line = responseLine(law, 0, 10, 10);
    expect(line).toHaveLength(10);
    expect(line[9][1]).toBeCloseTo(10 / lawAt(law, 10)!, 9);
  });

  it('have dots in the colour of their hour', () => {
    expect(hourColour(0, 'UTC')).toBe('--hours-0');
    expect(hourColour(3600 * 23.99, 'UTC')).toBe('--hours-7');
    expect(hourColour(3600 * 9, 'Asia/Kolkata')).toBe('--hours-4');
  });
});
