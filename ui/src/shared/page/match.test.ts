import { expect, it } from 'vitest';
import { cliCommand, heatCsv, promQuantile } from '../text/export';
import { fromResponse } from '../chart/heat';
import { carried, defaultKinds, environmentsOf, holding, selection, shellQuote } from './match';

it('writes PromQL matchers', () => {
  expect(selection({})).toBe('');
  expect(selection({ tenant: ['acme'], service: ['checkout'], status: [] })).toBe('{service="checkout",tenant="acme"}');
  expect(selection({ kind: ['server', 'consumer'] })).toBe('{kind=~"server|consumer"}');
  expect(selection({ operation: ['GET /cart/{id}', 'a.b|c'] })).toBe('{operation=~"GET /cart/\\\\{id\\\\}|a\\\\.b\\\\|c"}');
  expect(selection({ a: ['say "hi"\\\n'] })).toBe('{a="say \\"hi\\"\\\\\\n"}');
  expect(selection({ tenant: [''] })).toBe('{tenant=""}');
  expect(selection({ service: ['a'] }, holding('operation', 'GET /cart/{'))).toBe('{service="a",operation=~"(?i).*GET /cart/\\\\{.*"}');
  expect(selection({}, holding('tenant', '"'))).toBe('{tenant=~"(?i).*\\".*"}');
});

it('counts server and consumer spans as requests where there are such', () => {
  expect(defaultKinds(['client', 'server', 'internal'])).toEqual(['server']);
  expect(defaultKinds(['consumer', 'server'])).toEqual(['server', 'consumer']);
  expect(defaultKinds(['client', 'internal'])).toEqual([]);
});

it('writes commands a shell reads back', () => {
  expect(shellQuote("it's")).toBe("'it'\\''s'");
  const span = 'span_duration_seconds';
  expect(cliCommand('heatmap', span, span, '{service="a b"}', false, 10, 20, 'http://127.0.0.1:7099')).toBe(
    `tailscope query heatmap --match '{service="a b"}' --start 10 --end 20`,
  );
  expect(cliCommand('heatmap', 'x', span, '', true, 10, 20, 'https://tail.example')).toBe(
    'tailscope query heatmap --kind all --family x --start 10 --end 20 --server https://tail.example',
  );
  expect(promQuantile(span, '{service="a"}', 0.99, 30)).toBe('histogram_quantile(0.99, sum(rate(span_duration_seconds{service="a"}[1m])))');
  expect(promQuantile(span, '', 0.5, 7200)).toBe('histogram_quantile(0.5, sum(rate(span_duration_seconds[2h])))');
});

it('writes every occupied cell as a line', () => {
  const h = fromResponse({
    start: 0, end: 20, step: 10, slot: 10, family: 'f', error: 0.022, bounds: [0.1, 0.2, 0.4], count: 4, max_cell: 3,
    columns: [{ start: 10, count: 4, sum: 1, min: 0.1, max: 0.4, rows: [0, 1], counts: [3, 1] }],
  });
  expect(heatCsv(h, 'seconds')).toBe(
    'start,end,low_seconds,high_seconds,count\n1970-01-01T00:00:10Z,1970-01-01T00:00:20Z,0.1,0.2,3\n1970-01-01T00:00:10Z,1970-01-01T00:00:20Z,0.2,0.4,1\n',
  );
});

it('the environment goes along unless another is named', () => {
  const before = { environment: ['production'], tenant: ['acme'] };
  expect(carried({}, before)).toEqual({ environment: ['production'] });
  expect(carried({ tenant: ['x'] }, before)).toEqual({ tenant: ['x'], environment: ['production'] });
  expect(carried({ environment: [''] }, before)).toEqual({ environment: [''] });
  expect(carried({ environment: [] }, before)).toEqual({});
  expect(carried({ kind: [] }, {})).toEqual({ kind: [] });
});

it('environments are those seen, of requests without one, and those chosen', () => {
  const seen = { name: 'environment', total: 2, values: [{ value: 'production', count: 5 }, { value: 'staging', count: 2 }], without: 3 };
  expect(environmentsOf(seen, ['staging', 'qa'])).toEqual([{ name: 'production', count: 5 }, { name: 'staging', count: 2 }, { name: '', count: 3 }, { name: 'qa', count: 0 }]);
  expect(environmentsOf(undefined, [])).toEqual([]);
});
