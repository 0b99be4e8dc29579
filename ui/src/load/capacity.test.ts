import { describe, expect, it } from 'vitest';
import type { Capacity, CapacityStep } from '../shared/api/schema';
import * as cap from './capacity';

const latency = { count: 1, mean: 0.01, min: 0, max: 1, quantiles: { '0.99': 0.1 }, error: 0 };
function step(x: number, kept: CapacityStep['kept'], more: Partial<CapacityStep> = {}): CapacityStep {
  return {
    phase: 'rise', x, asked: x, rate: x, start: 0, end: 10, kept, objectives: [{ text: 'p99 < 200ms', value: 0.1, low: 0.09, high: 0.11, limit: 0.2, kept }, { text: 'errors < 0.1%', value: 0, low: 0, high: 0.0002, limit: 0.001, kept: 'kept' }],
    latency, uncorrected: latency, errors: 0, concurrency: x / 100, waited: 0.001, queued: null, worked: 0.009, cpu: null, generator: {} as CapacityStep['generator'], valid: true, stopped_after: null, slots: [], ...more,
  };
}
const run = (steps: CapacityStep[], more: Partial<Capacity> = {}): Capacity => ({
  format: 1, name: 'a', service: 's', target: '', command: '', mode: 'rate', unit: 'requests/s', objective: '', arrivals: 'poisson', seed: 1, start: 0, end: 1, environment: {} as Capacity['environment'],
  bounds: [0, 0.001, 0.01, 0.1, 1], steps, events: [], restored: true, verdict: 'found', headline: '', warnings: [], ...more,
});

describe('steps', () => {
  it('are in the order of their load, which fewer servers raise', () => {
    expect(cap.ordered(run([step(100, 'kept'), step(400, 'broken'), step(200, 'kept')]), 'load').map((p) => [p.step.x, p.at])).toEqual([[100, 0], [200, 2], [400, 1]]);
    expect(cap.ordered(run([step(11, 'kept'), step(3, 'broken'), step(6, 'kept')], { unit: 'servers' }), 'load').map((p) => p.step.x)).toEqual([11, 6, 3]);
    expect(cap.ordered(run([step(200, 'kept'), step(100, 'kept')]), 'time').map((p) => p.step.x)).toEqual([200, 100]);
  });

  it('that are unclear alone may be told by all of them', () => {
    const said = (s: CapacityStep, c: Capacity) => cap.cameOut(s, c).word;
    const c = run([], { answer: { value: 340, low: 300, high: 380 } as Capacity['answer'] });
    expect([50, 300, 320, 400].map((x) => said(step(x, 'unclear'), c))).toEqual(['kept, by all steps', 'kept, by all steps', 'unclear', 'broken, by all steps']);
    expect([said(step(50, 'broken'), c), said(step(50, 'unclear', { valid: false }), c), said(step(50, 'unclear'), run([]))]).toEqual(['broken', 'invalid', 'unclear']);
    const pool = run([], { unit: 'servers', answer: { value: 4, low: null, high: 4 } as Capacity['answer'] });
    expect([5, 4, 3].map((x) => said(step(x, 'unclear'), pool))).toEqual(['kept, by all steps', 'kept, by all steps', 'unclear']);
  });

  it('mark answers that stay behind by more than chance', () => {
    const [few, many] = [step(100, 'unclear', { rate: 96.4, end: 4 }), step(100, 'unclear', { rate: 80, end: 10 })];
    expect(cap.stepsSheet(run([few, many])).rows.map((r) => r[4].bad)).toEqual([false, true]);
  });

  it('leave the ends of an interval open that are not known', () => {
    const o = { text: 'p99 < 200ms', value: 0.1, low: 0.09 as number | null, high: null as number | null, limit: 0.2, kept: 'unclear' as const };
    expect([o, { ...o, low: null, high: 0.11 }, { ...o, low: null }, { ...o, high: 0.11 }].map(cap.objectiveInterval)).toEqual(['from 90.0 ms', 'up to 110 ms', '', '90.0 … 110 ms']);
  });

  it('know their conditions, and the first limit of a time', () => {
    const c = run([step(1, 'kept')]);
    expect(cap.conditions(c)).toEqual(['p99 < 200ms', 'errors < 0.1%']);
    expect(cap.timeLimit(c)).toEqual({ text: 'p99 < 200ms', limit: 0.2 });
    expect(['errors < 0.1%', 'primary errors < 1%', 'p99{search} < 1s', 'primary p99 < 1s'].map(cap.isShare)).toEqual([true, true, false, false]);
  });

  it('name loads in their unit', () => {
    expect([cap.loadText('requests/s', 812), cap.loadText('servers', 1), cap.loadText('servers', 4), cap.loadText('copies', 2.5), cap.loadText('copies', null)]).toEqual(['812/s', '1 server', '4 servers', '2.50 copies', '–']);
  });

  it('say what does not count and what was stopped, alike ones together', () => {
    const note = cap.stepsSheet(run([step(1, 'kept', { valid: false, why: 'late' }), step(9, 'broken', { stopped: 'p99 is broken', stopped_after: 0.2 }), step(8, 'broken', { stopped: 'p99 is broken', stopped_after: 0.4 })])).note!;
    expect(note).toContain('Step 1 does not count: late.');
    expect(note).toContain('Step 2, 3 stopped: p99 is broken.');
    expect(cap.slowestStop(run([step(1, 'broken', { stopped: 'x', stopped_after: 0.4 }), step(1, 'kept')]))).toBe(0.4);
  });
});

describe('heatmaps', () => {
  it('have cells that hold every count of every slot', () => {
    const slots = [{ time: 0, width: 1, counts: [3, 5, 0, 2], errors: 0 }, { time: 1, width: 1, counts: [0, 4, 1, 0], errors: 0 }];
    const h = cap.stepHeat(run([step(1, 'kept', { slots })]), 100)!;
    for (const s of slots) expect(cap.slotCells(h, s).reduce((a, b) => a + b, 0)).toBe(cap.slotCount(s));
    expect(cap.stepHeat(run([step(1, 'kept')]), 100)).toBeUndefined();
    expect(cap.stepHeat(run([], { bounds: [] }), 100)).toBeUndefined();
  });

  it('have rates with intervals by slots, of five or more', () => {
    const slots = [98, 102, 100, 97, 103].map((n, i) => ({ time: i, width: 1, counts: [n, 0, 0, 0], errors: 0 }));
    const r = cap.rateInterval(step(100, 'kept', { slots }))!;
    // t(4) = 2.776, sd = 2.55: ± 3.17
    expect(r.high - 100).toBeCloseTo((2.776 * Math.sqrt(26 / 4)) / Math.sqrt(5), 6);
    expect(cap.rateInterval(step(100, 'kept', { slots: slots.slice(1) }))).toBeUndefined();
    for (const [df, t] of [[12, 2.179], [30, 2.042], [120, 1.98]]) expect(cap.student(df)).toBeCloseTo(t, 2);
  });

  it('have an axis of times that overload does not flatten', () => {
    const worked = (w: number) => ({ worked: w, waited: 0 });
    expect(cap.timesTop([step(1, 'kept', worked(0.01)), step(2, 'broken', worked(4))])).toBeLessThanOrEqual(0.03);
    expect(cap.timesTop([step(2, 'broken', worked(4))])).toBe(4);
  });
});

describe('the answer', () => {
  const answer = { value: 812, low: 799, high: 826, level: 0.95, rate: 812, limit: 'p99', sentence: '' };
  it('has its interval in its unit, or one end of it', () => {
    expect(cap.answerInterval(run([], { answer }))).toBe('799 … 826/s, 95 % interval');
    expect(cap.answerInterval(run([], { answer: { ...answer, high: null } }))).toBe('at least 799/s');
    expect(cap.answerInterval(run([], { answer: { ...answer, low: null, high: 10 } }))).toBe('no more than 10.0/s');
    expect(cap.answerInterval(run([], { verdict: 'below', answer: { ...answer, low: null, high: 10 } }))).toBe('below 10.0/s');
    expect(cap.answerInterval(run([], { verdict: 'below', unit: 'servers', answer: { ...answer, low: 4, high: null } }))).toBe('more than 4 servers');
    expect(cap.answerInterval(run([], { answer: { ...answer, low: null, high: null } }))).toBe('wider than what was held');
  });

  it('is preceded by what was not put back', () => {
    expect(cap.capacityAlarms(run([], { restore_error: 'no', unit: 'servers' }), 'ended')).toEqual(['The pool was not put back as it was: no']);
    expect(cap.capacityAlarms(run([], { mode: 'mirror', restored: false }), 'lost')).toHaveLength(1);
    expect(cap.capacityAlarms(run([]), 'ended')).toEqual([]);
  });
});
