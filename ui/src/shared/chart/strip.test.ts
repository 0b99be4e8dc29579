import { describe, expect, it } from 'vitest';
import { merged, strip } from './strip';
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
