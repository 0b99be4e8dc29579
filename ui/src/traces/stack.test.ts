import { describe, expect, it } from 'vitest';
import type { BreakdownPart, BreakdownResponse } from '../shared/api/schema';
import { componentLayers, lineOf, partLayers, shades, stack, sumOver, topLayers, type Layer } from './stack';

describe('stack', () => {
  it('lays layers on each other and closes the last step', () => {
    const s = stack([0, 10], 10, [{ key: 'a', name: 'a', values: [1, 2] }, { key: 'b', name: 'b', values: [3, 0.5] }]);
    expect(s.edges).toEqual([0, 10, 20]);
    expect(s.far).toEqual([[1, 2, 2], [4, 2.5, 2.5]]);
    expect(s.total).toEqual([4, 2.5]);
  });
  it('hangs what comes before below zero, outside the total', () => {
    const s = stack([0], 10, [{ key: 'a', name: 'a', values: [1] }, { key: 'q', name: 'q', values: [0.25], before: true }]);
    expect(s.far).toEqual([[1, 1], [-0.25, -0.25]]);
    expect(s.total).toEqual([1]);
  });
  it('keeps a gap a gap, and a layer without a value flat', () => {
    const s = stack([0, 10], 10, [{ key: 'a', name: 'a', values: [null, null] }, { key: 'b', name: 'b', values: [null, 2] }]);
    expect(s.far).toEqual([[null, 0, 0], [null, 2, 2]]);
    expect(s.total).toEqual([null, 2]);
  });
  it('has nothing to draw without steps', () => {
    expect(stack([], 10, [])).toEqual({ edges: [], far: [], total: [] });
  });
});

const b: BreakdownResponse = {
  start: 0, end: 30, step: 10, slot: 10, times: [0, 10, 20], requests: [4, 0, 5], total: 9, seconds: 6,
  components: [
    { component: 'queue', self: [0.4, 0, 0.5], seconds: 0.9, share: 0, critical_share: 0, error: 0 },
    { component: 'db', self: [1, 0, 3], critical: [0.5, 0, 2], seconds: 4, share: 2 / 3, critical_share: 0.5, error: 0 },
    { component: 'app', self: [1, 0, 1], critical: [1.5, 0, 2], seconds: 2, share: 1 / 3, critical_share: 0.5, error: 0 },
  ],
};

describe('componentLayers', () => {
  it('stands in the order of components, queue before the request', () => {
    const l = componentLayers(b, 'request', 'self');
    expect(l.map((x) => [x.key, x.name, !!x.before])).toEqual([['app', 'app', false], ['db', 'database', false], ['queue', 'queue', true]]);
  });
  it('gives seconds per request, per second and shares', () => {
    expect(componentLayers(b, 'request', 'self').map((l) => l.values)).toEqual([[0.25, null, 0.2], [0.25, null, 0.6], [0.1, null, 0.1]]);
    expect(componentLayers(b, 'second', 'self').map((l) => l.values)).toEqual([[0.1, null, 0.1], [0.1, null, 0.3], [0.04, null, 0.05]]);
    expect(componentLayers(b, 'share', 'self').map((l) => l.values)).toEqual([[0.5, null, 0.25], [0.5, null, 0.75], [0.2, null, 0.125]]);
  });
  it('gives the critical path instead, and what has none its own time', () => {
    expect(componentLayers(b, 'share', 'critical').map((l) => l.values[2])).toEqual([0.5, 0.5, 0.125]);
  });
  it('leaves out a step that is not over, per second only', () => {
    expect(componentLayers(b, 'second', 'self', 25)[0].values).toEqual([0.1, null, null]);
    expect(componentLayers(b, 'request', 'self', 25)[0].values[2]).toBe(0.2);
  });
  it('takes an answer of no steps', () => {
    expect(componentLayers({ ...b, times: [], components: [], requests: [] }, 'share', 'self')).toEqual([]);
  });
});

describe('partLayers', () => {
  const part = (component: string, operation: string, seconds: number, self?: number[]): BreakdownPart => ({
    service: 's', component, operation, seconds, self, share: 0, critical_share: 0, calls: 0, per_request: 0, requests: 0, repeated: 0, n_plus_one: false, mean: 0, error: 0,
  });
  const parts = [part('db', 'SELECT a', 3, [1, 0, 2]), part('app', 'GET /', 2, [1, 0, 1]), part('db', 'SELECT b', 0.9), part('queue', '', 0.9, [0.4, 0, 0.5])];
  it('keeps parts of a component together and names what is left', () => {
    const l = partLayers({ ...b, parts }, 'request', 10);
    expect(l.map((x) => [x.name, x.component, !!x.before])).toEqual([['GET /', 'app', false], ['SELECT a', 'db', false], ['queue', 'queue', true], ['others', '', false]]);
    expect(l.map((x) => x.values)).toEqual([[0.25, null, 0.2], [0.25, null, 0.4], [0.1, null, 0.1], [0, null, 0.2]]);
  });
  it('has no others where the parts are all there is', () => {
    expect(partLayers({ ...b, parts: [part('db', 'x', 4, [1, 0, 3]), part('app', 'y', 2, [1, 0, 1])] }, 'share', 10).map((x) => x.name)).toEqual(['y', 'x']);
  });
});

describe('topLayers', () => {
  const rows = [
    { key: 'a', name: 'a', seconds: 1, over: [1, 0] },
    { key: 'b', name: 'b', seconds: 5, over: [2, 3] },
    { key: 'c', name: 'c', seconds: 2, over: [1, 1] },
  ];
  it('keeps the heaviest and names what is left', () => {
    const l = topLayers(rows, [10, 4], [0, 10], 10, 2);
    expect(l.map((x) => x.name)).toEqual(['b', 'c', 'others']);
    expect(l.map((x) => x.values)).toEqual([[0.2, 0.3], [0.1, 0.1], [0.7, 0]]);
  });
  it('has no others where nothing is left', () => {
    expect(topLayers(rows, [4, 4], [0, 10], 10, 3).map((x) => x.name)).toEqual(['b', 'c', 'a']);
  });
  it('ends where data ends', () => {
    expect(topLayers(rows, null, [0, 10], 10, 1, 15)[0].values).toEqual([0.2, null]);
  });
});

it('sums over series, a gap only where all have one', () => {
  expect(sumOver([[1, null, null], [2, 3, null], undefined], 3)).toEqual([3, 3, null]);
});

describe('shades', () => {
  it('run in one hue, evenly, away from the ground first', () => {
    const l = (s: string) => Number(/\(([\d.]+)/.exec(s)?.[1]);
    const light = shades('oklch(0.5 0.15 45)', 5, 'light').map(l);
    expect(light).toEqual([...light].sort());
    expect(light[1] - light[0]).toBeCloseTo(light[4] - light[3], 2);
    const darks = shades('oklch(0.5 0.15 45)', 5, 'dark').map(l);
    expect(darks).toEqual([...darks].sort().reverse());
    expect(shades('oklch(0.5 0.15 45)', 3, 'light').every((s) => s.endsWith(' 45)'))).toBe(true);
  });
  it('leave a colour they cannot read as it is', () => expect(shades('red', 2, 'light')).toEqual(['red', 'red']));
});

describe('the line of an earlier day', () => {
  const layers: Layer[] = [
    { key: 'app', name: 'app', values: [1, 2, null] },
    { key: 'db', name: 'database', values: [3, 4, null] },
    { key: 'queue', name: 'queue', values: [9, 9, null], before: true },
  ];
  const from = { start: 0, step: 60, times: [0, 60, 120] };
  it('is as high as its layers together, without what lies before the request', () => {
    const l = lineOf('Fri 13 Nov', [5, 4], from, layers, { start: 0, step: 60, n: 3 })!;
    expect(l.values).toEqual([4, 6, null]);
    expect(l.curves).toEqual([[4, 6, null]]);
    expect(l.parts.map((p) => p.name)).toEqual(['queue', 'database', 'app']);
    expect(l.parts[1].values).toEqual([3, 4, null]);
  });
  it('is where layers meet if all are as high', () => {
    expect(lineOf('', [], from, layers, { start: 0, step: 60, n: 3 }, true)!.curves).toEqual([[1, 2, null]]);
  });
  it('is laid on the steps shown', () => {
    expect(lineOf('', [], from, layers, { start: 60, step: 30, n: 3 })!.values).toEqual([6, 6, null]);
    expect(lineOf('', [], from, layers, { start: 0, step: 120, n: 1 })!.values).toEqual([5]);
  });
  it('is none where nothing was measured', () => {
    expect(lineOf('', [], from, [{ key: 'app', name: 'app', values: [null, null, null] }], { start: 0, step: 60, n: 3 })).toBeUndefined();
    expect(lineOf('', [], { start: 0, step: 60, times: [] }, [], { start: 0, step: 60, n: 3 })).toBeUndefined();
  });
});
