import { expect, it } from 'vitest';
import type { OperationsResponse } from '../shared/api/schema';
import { wholeUntil } from '../shared/chart/whole';
import { callKey, heaviest, verbLayers } from './calls';

const row = (operation: string, seconds: number, seconds_over: number[], rate_over: number[]) => ({ component: 'db', operation, seconds, seconds_over, rate_over, calls: 1 });
const h = {
  start: 0, end: 180, step: 60, times: [0, 60, 120],
  operations: [row('SELECT a', 90, [60, 30, 0], [1, 1, 0]), row('INSERT b', 36, [12, 24, 0], [0.2, 0.4, 0]), row('SELECT c', 6, [6, 0, 0], [3, 0, 0])],
  verbs: [{ verb: 'save', seconds: 36, calls: 3, seconds_over: [12, 24, 0], rate_over: [0.2, 0.4, 0] }, { verb: 'find', seconds: 96, calls: 9, seconds_over: [66, 30, 0], rate_over: [4, 1, 0] }, { verb: 'other', calls: 0, seconds: 0, seconds_over: [0, 0, 0], rate_over: [0, 0, 0] }],
} as unknown as OperationsResponse;

const round = (values: (number | null)[]) => values.map((v) => v && Math.round(v * 1e9) / 1e9);

it('calls are stacked by what they do, a step that is not over left out', () => {
  expect(verbLayers(h, false, 150).map((l) => [l.key, l.name, round(l.values)])).toEqual([['find', 'reads', [1.1, 0.5, null]], ['save', 'writes', [0.2, 0.4, null]]]);
  expect(verbLayers(h, true)[0].values).toEqual([4, 1, 0]);
  expect(verbLayers({ ...h, verbs: undefined }, true)).toEqual([]);
});

it('the newest slots, whose calls are on their way, are left out, none of an earlier range', () => {
  expect(verbLayers(h, false, wholeUntil({ whole_until: 165 }, 178)).map((l) => l.values.at(-1))).toEqual([null, null]);
});

it('the heaviest lie below what is left', () => {
  expect(heaviest(h, false, 1).map((l) => [l.name, round(l.values)])).toEqual([['SELECT a', [1, 0.5, 0]], ['others', [0.3, 0.4, 0]]]);
  expect(heaviest(h, true, 1, 150).map((l) => round(l.values))).toEqual([[1, 1, null], [3.2, 0.4, null]]);
  expect(heaviest({ ...h, operations: [] }, false, 5)).toEqual([]);
});

it('those of an earlier day are the ones shown, whatever was heavy then', () => {
  expect(heaviest(h, false, 1, Infinity, ['db SELECT c', 'db UPDATE x']).map((l) => [l.key, round(l.values)])).toEqual([['db SELECT c', [0.1, 0, 0]], ['', [1.2, 0.9, 0]]]);
});

it('calls of one operation to two systems are two', () => {
  expect(callKey({ component: 'db', operation: 'get x', system: 'riak' })).not.toBe(callKey({ component: 'db', operation: 'get x', system: 'mysql' }));
  expect(callKey({ component: 'db', operation: 'get x' })).toBe('db get x');
});
