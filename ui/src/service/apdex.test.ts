import type { ApdexRow } from '../shared/api/schema';
import { expect, it } from 'vitest';
import { apdexFits, apdexWords, originWords, thinWords } from './apdex';

const row: ApdexRow = { service: 's', t: 0.5, from: 'default', apdex: 0.94, low: 0.936, high: 0.943, satisfied: 1, tolerating: 1, frustrated: 1, requests: 3, rate: 20, thin: false, over: [], thin_over: [] };

it('Apdex says where T comes from and what the buckets leave open', () => {
  expect(apdexWords(row)).toBe('Satisfied up to T 500 ms (the default), tolerating up to 2.00 s, failed is frustrated. Between 0.936 and 0.943: what the buckets that hold T and 4 T leave open.');
  expect(originWords({ from: 'service', operation: 'x' })).toBe('set for the service');
  expect(originWords({ from: 'operation', operation: 'x' })).toBe('set for this operation');
});

it('says why it is grey', () => {
  expect(apdexWords({ ...row, thin: true, rate: 0.42 })).toContain('Grey: fewer than 100 requests a minute (25 here), so it means little.');
  expect(thinWords({ rate: null })).toBe('fewer than 100 requests a minute, so it means little');
});

it('Apdex is of requests, whoever makes them, not of failures or calls', () => {
  expect(apdexFits({})).toBe(true);
  expect(apdexFits({ operation: ['x'], tenant: ['a'] })).toBe(true);
  expect(apdexFits({ status: ['error'] })).toBe(false);
  expect(apdexFits({ component: ['db'] })).toBe(false);
});
