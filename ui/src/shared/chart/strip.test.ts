import { describe, expect, it } from 'vitest';
import { gapsOf, merged, statesOf, strip } from './strip';
import type { CheckState } from '../api/schema';

describe('over time', () => {
  const states: CheckState[] = [{ start: 0, end: 50, state: 'OK', soft: false }, { start: 50, end: null, state: 'CRITICAL', soft: false, why: 'x' }];
  it('cuts states to the range; what lasts ends now', () => {
    expect(strip(states, 20, 100, 80).map((s) => [s.start, s.end, s.state])).toEqual([[20, 50, 'OK'], [50, 80, 'CRITICAL']]);
    expect(strip(states, 60, 100).map((s) => [s.start, s.end])).toEqual([[60, 100]]);
    expect(strip([...states].reverse(), 20, 100, 80).map((s) => s.start)).toEqual([20, 50]); // incidents come the newest first
    expect(strip(undefined, 0, 1)).toEqual([]);
  });
  it('draws one state a pixel, the worst', () => {
    const at = (start: number, end: number, state: CheckState['state']) => ({ start, end, state, soft: false });
    const many = [at(0, 100, 'OK'), at(100, 102, 'WARNING'), at(102, 103, 'CRITICAL'), at(103, 104, 'OK'), at(104, 300, 'OK')];
    expect(merged(many, 10)).toEqual([at(0, 100, 'OK'), at(100, 104, 'CRITICAL'), at(104, 300, 'OK')]);
    expect(merged(many, 0)).toEqual(many);
  });
});

it('an incident is as bad as it was at each moment', () => {
  const event = (time: number, kind: 'opened' | 'changed' | 'acknowledged', to: 'WARNING' | 'CRITICAL') => ({ seq: time, time, kind, from: 'OK' as const, to, text: '' });
  const i = { id: 'i', kind: 'check' as const, start: 10, since: 10, end: 40, worst: 'CRITICAL' as const, value: 1, text: 'x' };
  const seen = (of: CheckState[]) => of.map((s) => [s.start, s.end, s.state]);
  expect(seen(statesOf({ ...i, events: [event(10, 'opened', 'WARNING'), event(20, 'changed', 'CRITICAL'), event(25, 'acknowledged', 'CRITICAL'), event(27, 'changed', 'CRITICAL'), event(30, 'changed', 'WARNING')] }))).toEqual([[10, 20, 'WARNING'], [20, 30, 'CRITICAL'], [30, 40, 'WARNING']]);
  expect(seen(statesOf(i))).toEqual([[10, 40, 'CRITICAL']]);
  // Of one that flaps events tell no change: it is open, and OK since 14.
  const flapped: CheckState[] = [{ start: 10, end: 14, state: 'CRITICAL', soft: false }, { start: 14, end: null, state: 'OK', soft: false, why: 'flapping' }];
  expect(seen(statesOf({ ...i, end: null, events: [event(10, 'opened', 'CRITICAL')], states: flapped }))).toEqual([[10, 14, 'CRITICAL'], [14, null, 'OK']]);
});

it('gaps are the whole columns in which nothing was measured', () => {
  const gaps = (counts: number[], whole = counts.length) => gapsOf({ columnCount: Float64Array.from(counts), whole });
  expect([gaps([]), gaps([3, 1]), gaps([0, 0, 3, 0, 1, 0]), gaps([0, 0, 3, 0, 0], 4)]).toEqual([[], [], [[0, 2], [3, 4], [5, 6]], [[0, 2], [3, 4]]]);
});
