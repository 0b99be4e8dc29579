import { describe, expect, it } from 'vitest';
import { childrenOf, closedAtFirst, descendants, durationTicks, extent, groupKey, onScreen, ownStretches, partName, pathStretches, rowsOf, skewWords, slowSpans, traceLink } from './traces';
import type { TraceGroup, TraceRow, TraceSpan } from '../shared/api/schema';

function span(parent: number, start: number, duration: number, more: Partial<TraceSpan> = {}): TraceSpan {
  return {
    span_id: '', parent, depth: 0, service: 's', operation: 'o', component: 'app', kind: 'internal', failed: false, request: false, orphan: false,
    async: false, start, duration, self: 0, critical: 0, ...more,
  };
}

//  0 ─┬ 1 ── 2
//     └ 3
const spans = [span(-1, 0, 10), span(0, 1, 4), span(1, 2, 1), span(0, 6, 6, { async: true })];

describe('rows', () => {
  const children = childrenOf(spans);
  const below = descendants(children);
  const list = (closed: number[], top: number | null = null) => rowsOf(children, below, new Set(closed), top).map((r) => `${' '.repeat(r.level)}${r.index}${r.open ? '-' : r.children ? '+' : ''}`);

  it('follow the tree', () => {
    expect(below).toEqual([3, 1, 0, 0]);
    expect(list([])).toEqual(['0-', ' 1-', '  2', ' 3']);
  });
  it('leave out what lies below a closed span', () => {
    expect(list([1])).toEqual(['0-', ' 1+', ' 3']);
    expect(list([0])).toEqual(['0+']);
  });
  it('begin at the span that is zoomed to', () => {
    expect(list([], 1)).toEqual(['1-', ' 2']);
  });
  it('know their place among siblings', () => {
    expect(rowsOf(children, below, new Set(), null).map((r) => `${r.position}/${r.siblings}`)).toEqual(['1/1', '1/2', '1/1', '2/2']);
  });
  it('close what would not fit', () => {
    const many = [span(-1, 0, 1), ...Array.from({ length: 20 }, () => span(0, 0, 1)), ...Array.from({ length: 500 }, (_, i) => span(1 + (i % 20), 0, 1))];
    const c = childrenOf(many);
    const closed = closedAtFirst(many, c, descendants(c), 100);
    const n = rowsOf(c, descendants(c), closed, null).length;
    expect(n).toBeLessThanOrEqual(100);
    expect(n).toBeGreaterThan(60);
    expect(closedAtFirst(spans, children, below)).toEqual(new Set());
  });
  it('survive a parent that is not there, and a tree as deep as it is long', () => {
    expect(childrenOf([span(7, 0, 1), span(1, 0, 1)])).toEqual([[], [], [0, 1]]);
    const deep = Array.from({ length: 20000 }, (_, i) => span(i - 1, 0, 1));
    const c = childrenOf(deep);
    expect(rowsOf(c, descendants(c), new Set(), null)).toHaveLength(20000);
  });
});

describe('bars', () => {
  const children = childrenOf(spans);
  it('are dark where the span itself works', () => {
    expect(ownStretches(spans, children, 0)).toEqual([[0, 1], [5, 6]]);
    expect(ownStretches(spans, children, 2)).toEqual([[2, 3]]);
    // A child that outlives it takes no more than there is.
    expect(ownStretches([span(-1, 0, 2), span(0, 1, 5)], [[1], [], [0]], 0)).toEqual([[0, 1]]);
  });
  it('join what one pixel cannot tell apart, and end at the window', () => {
    expect(onScreen([[0, 1], [1.001, 2], [5, 7.5]], 0, 10, 0.001)).toEqual([{ left: 0, width: 0.2 }, { left: 0.5, width: 0.25 }]);
    expect(onScreen([[0, 4], [20, 21]], 2, 10)).toEqual([{ left: 0, width: 0.25 }]);
    expect(onScreen([[0, 1]], 3, 3)).toEqual([]);
  });
  it('draw a pixel of many stretches if most of it is covered', () => {
    const sparse = Array.from({ length: 5000 }, (_, i): [number, number] => [i, i + 0.1]);
    const dense = Array.from({ length: 5000 }, (_, i): [number, number] => [i, i + 0.9]);
    expect(onScreen(sparse, 0, 5000, 0.001)).toEqual([]);
    const d = onScreen(dense, 0, 5000, 0.001);
    expect(d).toHaveLength(1);
    expect(d[0].width).toBeCloseTo(1, 9);
  });
  it('reach from the queue before the first span to the end of the last', () => {
    expect(extent({ trace_id: '', start: 0, duration: 10, complete: true, spans: [span(-1, 0, 10, { queue: 0.5 }), span(0, 9, 4)], components: [] })).toEqual({ from: -0.5, to: 13 });
  });
  it('pair the stretches of the critical path', () => {
    expect(pathStretches([0, 1, 2, 3])).toEqual([[0, 1], [2, 3]]);
    expect(pathStretches(undefined)).toEqual([]);
  });
  it('are slow from a fifth of the trace', () => {
    expect([...slowSpans([span(-1, 0, 10, { self: 2 }), span(0, 0, 1, { self: 1.9 })], 10)]).toEqual([0]);
  });
});

describe('words', () => {
  it('ticks are round and within', () => {
    expect(durationTicks(0, 0.43, 5)).toEqual([0, 0.1, 0.2, 0.3, 0.4]);
    expect(durationTicks(-0.05, 0.2, 5)).toEqual([-0.05, 0, 0.05, 0.1, 0.15, 0.2]);
    expect(durationTicks(1, 1, 5)).toEqual([]);
  });
  it('say what a clock did', () => {
    expect(skewWords(-0.0032, (v) => `${v * 1000} ms`)).toBe('clock 3.2 ms ahead, moved');
    expect(skewWords(0.0032, (v) => `${v * 1000} ms`)).toBe('clock 3.2 ms behind, moved');
  });
  it('link to another system only by http', () => {
    expect(traceLink('https://traces.example/t/{trace_id}', 'ab')).toBe('https://traces.example/t/ab');
    expect(traceLink('javascript:alert({trace_id})', 'ab')).toBeUndefined();
    expect(traceLink(undefined, 'ab')).toBeUndefined();
  });
});

describe('the longest part of a kept request', () => {
  const part = { service: 'shop', operation: 'INSERT cart_lines', component: 'db', itself: false, share: 0.9 };
  const row: TraceRow = { trace_id: 'a', span_id: 'b', service: 'shop', operation: 'POST /orders', failed: false, why: ['slow'], start: 0, duration: 4, longest: part };
  const group: TraceGroup = { service: 'shop', operation: 'POST /orders', longest: { ...part, share: 0.7 }, requests: 2, failed: 0, min: 1, max: 4, tenants: 1 };
  it('names it, its service where that is another', () => {
    expect(partName('shop', part)).toBe('INSERT cart_lines');
    expect(partName('shoppers', part)).toBe('shop: INSERT cart_lines');
    expect(partName('shop', { ...part, itself: true })).toBe('itself');
  });
  it('puts requests into their group', () => {
    expect(groupKey(row)).toBe(groupKey(group));
    expect(groupKey({ ...row, operation: 'GET /orders' })).not.toBe(groupKey(group));
    expect(groupKey({ ...row, longest: { ...part, component: 'cache' } })).not.toBe(groupKey(group));
    expect(groupKey({ ...row, longest: undefined })).toBe('');
  });
});
