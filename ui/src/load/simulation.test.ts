import { describe, expect, it } from 'vitest';
import type { Simulation, SimulationLayout } from '../shared/api/schema';
import * as sim from './simulation';

const q = (v: number | null) => ({ value: v, low: v, high: v });
function layout(x: number, p99: number | null, more: Partial<SimulationLayout> = {}): SimulationLayout {
  return {
    name: `${more.curve ?? ''}${x}`, curve: '', x, nodes: x, shards: 16, threads: 2, cores: 2, rounds: 1, per_node: 2, rate: 10, queries: 1, cost: null, cost_each: null, stable: p99 != null, mean: q(p99), quantiles: { '0.5': q(p99 && p99 / 3), '0.99': q(p99) },
    no_queue: { '0.99': 0.01 }, leaf: {}, waiting: 0, straggler: 2, merge: null, utilisation: 0.4, busiest: 0.5, aggregator: null, hedged: 0, cached: 0, ...more,
  };
}
const of = (layouts: SimulationLayout[]): Simulation => ({ format: 1, name: '', service: '', command: '', file: '', seed: 1, start: 0, end: 1, seconds: 1, variable: 'nodes', leaves: [], layouts, headline: '', warnings: [] });

describe('curves', () => {
  it('are one for each name and quantile, from the least to the most', () => {
    const s = of([layout(2, 0.2, { curve: 'binary' }), layout(1, 0.4, { curve: 'binary' }), layout(1, 0.3, { curve: 'arbitrary' })]);
    expect(sim.curves(s, ['0.5', '0.99']).map((c) => [c.name, c.q, c.points.map((p) => p.x)])).toEqual([['binary', '0.5', [1, 2]], ['binary', '0.99', [1, 2]], ['arbitrary', '0.5', [1]], ['arbitrary', '0.99', [1]]]);
    expect(sim.curveNames(of([layout(1, 1), { ...layout(2, 1), x: null, curve: 'other' }]))).toEqual(['']);
  });

  it('have stairs where more gains nothing until a step', () => {
    const [c] = sim.curves(of([4, 5, 6, 7, 8, 9, 10, 16].map((n) => layout(n, n < 8 ? 0.1 : n < 16 ? 0.05 : 0.025))), ['0.99']);
    expect(sim.stairs(c).map((s) => [s.from, s.to, s.next])).toEqual([[4, 7, 8], [8, 10, 16]]);
    expect(sim.stairs(c)[0].gain).toBeCloseTo(0.5, 9);
    const [smooth] = sim.curves(of([1, 2, 3, 4, 5].map((n) => layout(n, 1 / n))), ['0.99']);
    expect(sim.stairs(smooth)).toEqual([]);
  });
});

describe('the table', () => {
  it('leaves out what nobody has, and holds p99 against the first that has one', () => {
    const sheet = sim.layoutsSheet(of([layout(1, null, { why: 'nodes are busy 120 %' }), layout(2, 0.2), layout(4, 0.1)]));
    const names = sheet.head.map((h) => h.trim());
    expect(names).not.toContain('hedged');
    expect(names).not.toContain('aggregator');
    const column = names.indexOf('p99 against 2');
    expect(sheet.rows.map((r) => r[column].text)).toEqual(['–', '× 1.00', '× 0.500']);
    expect(sheet.rows[0][1]).toMatchObject({ text: '✕ unstable', title: 'nodes are busy 120 %', bad: true });
  });
});
