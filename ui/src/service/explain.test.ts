import type { ExplainItem, ExplainResponse } from '../shared/api/schema';
import { describe, expect, it } from 'vitest';
import { arrange, beforeWords, decodeAgainst, headline, itemTitle, explainCommand, explainCsv, explainParams, narrowed, points, throughWords, title } from './explain';

function item(labels: Record<string, string>, through?: Record<string, string>): ExplainItem {
  return {
    labels, through, inside: 62, outside: 4, inside_share: 0.62, outside_share: 0.04, effect: 0.58, effect_low: 0.51, effect_high: 0.644, lift: 15.5, adjusted_p: 0, sentence: '',
  };
}

describe('a question', () => {
  const q = { family: 'span_duration_seconds', match: '{service="shop"}', start: 1000, end: 4600, box: { start: 900, end: 1600, low: 0, high: 0.2 }, against: 'before' as const };
  it('is cut to the range, and has no bound at 0', () => {
    expect(explainParams(q)).toEqual({ family: 'span_duration_seconds', match: '{service="shop"}', start: 1000, end: 4600, from: 1000, to: 1600, low: undefined, high: 0.2, against: undefined });
    expect(explainParams({ ...q, box: { start: 2000, end: 9000, low: 0.1, high: null } })).toMatchObject({ from: 2000, to: 4600, low: 0.1, high: null });
  });
  it('is a command', () => {
    expect(explainCommand({ ...q, box: { start: 2000, end: 3000, low: 0.1, high: null } }, true, 'span_duration_seconds', 'http://127.0.0.1:7099'))
      .toBe(`tailscope query explain --match '{service="shop"}' --kind all --start 1000 --end 4600 --from 2000 --to 3000 --low 0.1`);
    expect(explainCommand({ ...q, against: 'rest' }, false, 'span_duration_seconds', 'http://127.0.0.1:7099')).toMatch(/ --high 0.2 --against rest$/);
    expect(explainCommand({ ...q, family: 'wait_seconds', match: '' }, false, 'span_duration_seconds', 'http://far:1'))
      .toBe('tailscope query explain --family wait_seconds --start 1000 --end 4600 --from 1000 --to 1600 --high 0.2 --server http://far:1');
  });
});

it('reads what the address asks', () => {
  expect([undefined, 'rest', 'day', 'nonsense'].map(decodeAgainst)).toEqual(['before', 'rest', 'day', 'before']);
});

describe('words', () => {
  it.each([[0.584, '58'], [0.0412, '4.1'], [0.00042, '0.04'], [0, '0'], [-0.02, '−2.0'], [null, '–']])('%s is %s points', (v, s) => expect(points(v)).toBe(s));
  it('name labels, pairs and what is missing', () => {
    expect(title({ tenant: 'acme' })).toBe('tenant acme');
    expect(title({ tenant: 'acme', operation: 'GET /search' })).toBe('operation GET /search with tenant acme');
    expect(title({ tenant: '' })).toBe('no tenant');
    expect(throughWords(item({ tenant: 'acme' }, { tenant: 'acme', operation: 'GET /search' }))).toBe('only with operation GET /search');
    expect(throughWords(item({ tenant: 'acme' }))).toBe('');
  });
});

it('lists causes in their order, and all others by that name', () => {
  const pair = { operation: 'a', tenant: 't' };
  const items = [item({ tenant: 't' }), item({ version: '1' }), item(pair), item({})];
  expect(arrange(items, 'before', 'requests').map((r) => r.title)).toEqual(['tenant t', 'version 1', 'operation a with tenant t', 'all other requests']);
  expect(itemTitle(item({}), 0, 'samples')).toBe('all samples');
});

it('has one sentence', () => {
  const r = { items: [item({ tenant: 'a: b' })], sentence: 'tenant a: b: 31 % of its requests are inside' } as unknown as ExplainResponse;
  expect(headline(r, 'requests')).toEqual(['tenant a: b', ': 31 % of its requests are inside']);
  expect(headline({ ...r, items: [], sentence: 'nothing became slower here than it was from 10:00:00 to 10:30:00 UTC' }, 'requests')).toEqual(['', 'nothing became slower here than it was from 10:00:00 to 10:30:00 UTC']);
  expect(beforeWords({ start: 0, end: 1, inside: 4, count: 40, share: 0.1, now: 0.2, mark: 'm1', name: '' }, '12:00 – 12:20')).toBe('4 of 40 were inside 12:00 – 12:20, before the mark m1');
});

it('puts pairs below their labels', () => {
  const pair = { operation: 'a', tenant: 't' };
  const names = (list: ExplainItem[]) => arrange(list).map((r) => `${r.nested ? '- ' : ''}${r.title}`);
  expect(names([item(pair), item({ tenant: 't' }), item({ operation: 'a' })])).toEqual(['operation a with tenant t', 'tenant t', 'operation a']);
  expect(names([item({ tenant: 't' }), item({ version: '1' }), item(pair), item({ tenant: 't', version: '2' })]))
    .toEqual(['tenant t', '- operation a with tenant t', '- tenant t with version 2', 'version 1']);
});

it('narrows the filters', () => {
  expect(narrowed({ kind: ['server'], tenant: ['x', 'y'] }, { tenant: 'acme', operation: 'a' })).toEqual({ kind: ['server'], tenant: ['acme'], operation: ['a'] });
});

it('is a table for spreadsheets', () => {
  expect(explainCsv([item({ tenant: 'a,"b"' })]).split('\n')[1]).toBe('"tenant a,""b""",62,4,0.62,0.04,0.58,0.51,0.644,15.5,0,,');
});
