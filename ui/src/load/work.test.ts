import { describe, expect, it } from 'vitest';
import type { SimulationWork } from '../shared/api/schema';
import { beside, queriesAt, stateAt, stateText, stretch } from './work';

const unit = (kind: SimulationWork['kind'], query: number, shard: number, node: number, thread: number, ready: number, start: number, end: number): SimulationWork => ({ kind, query, shard, node, thread, ready, start, end });
const s = stretch({
  nodes: 3, threads: 1,
  work: [
    unit('leaf', 0, 0, 0, 0, 1, 1, 3), unit('leaf', 0, 1, 1, 0, 1, 1, 2), unit('leaf', 1, 0, 0, 0, 2, 3, 5), unit('leaf', 1, 1, 1, 0, 2, 2, 6), unit('hedge', 1, 1, 2, 0, 4, 4, 4.5),
    unit('merge', 0, -1, -1, 0, 3, 3, 3.5), unit('pause', -1, -1, 1, 0, 6, 6, 7),
  ],
})!;

describe('work', () => {
  it('runs from when it begins until it ends, and waits from when it was asked for', () => {
    const at = (t: number) => stateAt(s, t).map((n) => [n.lane.node, n.running.map((u) => u?.query), n.waiting.map((u) => u.query)]);
    expect(at(2.5)).toEqual([[0, [0], [1]], [1, [1], []], [2, [undefined], []], [-1, [undefined], []]]);
    expect(at(3)).toEqual([[0, [1], []], [1, [1], []], [2, [undefined], []], [-1, [0], []]]);
    expect(stateAt(s, 6.5).find((n) => n.lane.node === 1)!.paused).toBe(true);
  });

  it('has queries that wait for their slowest leaf, and of a leaf asked twice for the faster', () => {
    expect(queriesAt(s, 2.5)).toMatchObject([{ query: 0, done: 1, leaves: 2, nodes: [0] }, { query: 1, done: 0, leaves: 2, nodes: [0, 1] }]);
    expect(queriesAt(s, 4.7)).toMatchObject([{ query: 1, done: 1, nodes: [0] }]);
    expect(queriesAt(s, 3.2)[0]).toMatchObject({ query: 0, merging: true, done: 2 });
    expect(s.most).toBe(2);
  });

  it('goes from event to event', () => {
    expect([s.from, s.to]).toEqual([1, 7]);
    expect(beside(s, 2, true)).toBe(3);
    expect(beside(s, 3, false)).toBe(2);
    expect(beside(s, 7, true)).toBe(7);
    expect(beside(s, 1, false)).toBe(1);
  });

  it('is told in words', () => {
    expect(stateText(s, 2.5)).toBe('2 units run, 1 waits, most at node 1 (1); 2 queries under way');
    expect(stateText(s, 6.5)).toContain('node 2 paused');
  });

  it('is none without any', () => {
    expect(stretch({ nodes: 1, threads: 1, work: [] })).toBeUndefined();
  });
});
