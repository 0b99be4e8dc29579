import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { bandsText, bandTitle, bandWidths, namingLines, slideOf, slowChoices, slowText, sortOf, tenantsCsv, tenantsMore } from './tenants';
import type { TenantsResponse } from '../shared/api/schema';

const ends = [0.1, 1, 5, 10];

test('the documentation has the lines that name a tenant', () => {
  const doc = readFileSync(new URL('../../../docs/tenants.md', import.meta.url), 'utf8').replace(/^ {4}/gm, '');
  for (const [language, lines] of Object.entries(namingLines)) expect(doc, language).toContain(lines);
});

test('bands are named with their bounds', () => {
  expect(bandTitle(0, ends)).toBe('instant, up to 100 ms');
  expect(bandTitle(2, ends)).toBe('patience, 1 s to 5 s');
  expect(bandTitle(4, ends)).toBe('lost, beyond 10 s');
  expect(bandsText([0.9, 0, 0.1, 0, 0], ends)).toBe('90.0 % instant, up to 100 ms; 10.0 % patience, 1 s to 5 s');
  expect(bandsText(undefined, ends)).toBe('no requests');
});

test('a hundredth of the requests takes a third of the bar', () => {
  const near = (got: number[], want: number[]) => got.forEach((w, i) => expect(w, String(got)).toBeCloseTo(want[i], 1));
  near(bandWidths([0.99, 0.01, 0, 0, 0], 120), [80, 40, 0, 0, 0]);
  near(bandWidths([0, 0.9, 0, 0.09, 0.01], 120), [0, 40, 0, 40, 40]);
  near(bandWidths([1, 0, 0, 0, 0], 120), [120, 0, 0, 0, 0]);
  const [most, few] = bandWidths([0.9999, 0.0001], 120);
  expect(few).toBeGreaterThan(1.4); // what exists is seen
  expect(most + few).toBeCloseTo(120);
  expect(bandWidths(undefined, 120)).toEqual([]);
});

test('a share of slow requests has its interval where there is one', () => {
  expect(slowText({ slow_share: 0.021, slow_low: 0.014, slow_high: 0.032 })).toBe('2.1 % (1.4–3.2 %)');
  expect(slowText({ slow_share: 0.5, slow_low: null, slow_high: null })).toBe('50.0 %');
  expect(slowText({ slow_share: 0, slow_low: 0, slow_high: 0.0001 })).toBe('0 %');
  expect(slowText({ slow_share: 0.0005, slow_low: 0.00001, slow_high: 0.0012 })).toBe('0.05 % (0–0.12 %)');
});

test('a window slides over a twelfth of the range', () => {
  expect(slideOf(6 * 3600)).toBe(1800);
  expect(slideOf(6 * 3600 + 600)).toBe(1800); // up to the end of the step that is open
  expect(slideOf(3600)).toBe(300);
  expect(slideOf(60)).toBe(60);
  expect(slideOf(30 * 86400)).toBe(3 * 86400);
});

test('the address is read with its defaults', () => {
  expect(tenantsMore({})).toEqual({ wrong: [], cohort: '', notRare: false, slow: '', tenant: '', line: '0.95' });
  expect(tenantsMore({ cohort: ['very large'], notrare: ['1'], slow: ['300ms'], tenant: ['acme'], line: ['0.99'] })).toEqual({ wrong: [], cohort: 'very large', notRare: true, slow: '300ms', tenant: 'acme', line: '0.99' });
  expect(tenantsMore({ line: ['7'] }).line).toBe('0.95');
  expect(slowChoices('2s').at(-1)).toEqual({ value: '2s', name: '2s' });
});

test('what the address says that there is not is said, and the default used', () => {
  const m = tenantsMore({ cohort: ['huge'], slow: ['abc'] });
  expect([m.cohort, m.slow, m.wrong.length]).toEqual(['', '', 2]);
  expect(m.wrong[0]).toContain('“abc” is not a time');
  expect(m.wrong[1]).toContain('no cohort “huge”');
  for (const slow of ['0s', '0', '-1s', 's', '2 s']) expect(tenantsMore({ slow: [slow] }).slow).toBe('');
  for (const slow of ['1m30s', '1.5s', '250us', '0.5']) expect(tenantsMore({ slow: [slow] })).toMatchObject({ slow, wrong: [] });
});

test('the list is sorted by what there is', () => {
  for (const s of ['suffers', 'requests', '-name', '0.95', '-0.5', 'size']) expect(sortOf(s)).toBe(s);
  for (const s of ['', 'nonsense', '0x95', '--name', 'p95']) expect(sortOf(s)).toBe('');
});

test('rows become CSV', () => {
  const d = { tenants: [{ name: 'a,b', requests: 3, share: 1, errors: 0, mean: 0.1, quantiles: { '0.5': 0.1, '0.95': null, '0.99': 0.3 }, error: 0.02, cohort: 'very large', slow_share: 0, slow_low: null, slow_high: null, effective: 1 }] } as unknown as TenantsResponse;
  expect(tenantsCsv(d).split('\n')[1]).toBe('"a,b",very large,3,1,0,0.1,0.1,,0.3,0,,,1');
});
