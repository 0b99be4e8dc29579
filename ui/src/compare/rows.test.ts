import { expect, test } from 'vitest';
import { labelsOf, noneChanged, sortRows } from './rows';
import type { CompareRow } from '../shared/api/schema';

const row = (operation: string, changed: boolean, verdicts: [string, string][]): CompareRow => ({
  operation, changed, requests_a: 9, requests_b: 9, adjusted_p: 1,
  measures: verdicts.map(([verdict, short], i) => ({
    name: `p${i}`, scale: 'ratio', verdict, adjusted_p: null, sentence: '',
    raw: { a: 1, b: 1, effect: null, low: null, high: null, p: null, verdict, error: 0, needed: null, needed_seconds: null, short },
  })),
}) as CompareRow;
const short = 'side B: 3 of 20 slots';
const little = row('little', false, [['too little data', short], ['too little data', short]]);
const unsure = row('unsure', false, [['no evidence', ''], ['too little data', short]]);
const slower = row('slower', true, [['slower', '']]);

test('rows of which nothing could be told stand apart', () => {
  const s = sortRows([slower, little, unsure]);
  expect([s.changed, s.rest, s.little]).toEqual([[slower], [unsure], [little]]);
});

test('where nothing changed it is said what was looked at, or what is missing', () => {
  expect(noneChanged(0, [], 'tenant')).toBe('No tenant has 100 requests on both sides.');
  expect(noneChanged(7, [], 'operation')).toBe('None of 7 changed beyond chance, adjusted for how many were looked at.');
  expect(noneChanged(5, [little, little], 'operation')).toBe('None of 5 changed beyond chance, adjusted for how many were looked at. Of 2 more there is too little data to tell.');
  expect(noneChanged(0, [little, little], 'operation')).toBe('Too little data to tell of any of 2 operations whether it changed: side B: 3 of 20 slots.');
  expect(noneChanged(0, [little], 'tenant')).toBe('Too little data to tell of the one tenant whether it changed: side B: 3 of 20 slots.');
  expect(noneChanged(0, [little, row('x', false, [['too little data', 'side A: no requests']])], 'operation')).toContain(', for instance side B: 3 of 20 slots.');
});

test('rows of a metric are named by their labels', () => {
  const names = ['operation', 'status', 'tenant'];
  expect(labelsOf('operation=GET /cart/{id} status=ok tenant=cedar', names)).toEqual({ operation: 'GET /cart/{id}', status: 'ok', tenant: 'cedar' });
  expect(labelsOf('status=ok tenant=a b', names)).toEqual({ status: 'ok', tenant: 'a b' });
  expect(labelsOf('GET /search', names)).toEqual({});
  expect(labelsOf('', names)).toEqual({});
});
