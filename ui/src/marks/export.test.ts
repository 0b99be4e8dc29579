import { expect, it } from 'vitest';
import { sidesCommand, sidesCsv, sidesPromQL } from './export';

const w = { before: { start: 600, end: 2400 }, after: { start: 2400, end: 4200 } };
const to = { before: w.before, after: { start: 2400, end: 2400 } };
const match = '{service="shop",kind="server"}';

it('each side has a command and an expression', () => {
  expect(sidesCommand(w, match, '')).toBe(`tailscope query distribution --match '${match}' --start 600 --end 2400\ntailscope query distribution --match '${match}' --start 2400 --end 4200`);
  expect(sidesPromQL(w, match)).toBe(`histogram_quantile(0.95, sum(rate(span_duration_seconds${match}[1800s] @ 2400)))\nhistogram_quantile(0.95, sum(rate(span_duration_seconds${match}[1800s] @ 4200)))`);
});

it('a side that has not begun has none', () => {
  expect(sidesCommand(to, match, '').split('\n')).toHaveLength(1);
  expect(sidesPromQL(to, match)).toContain('@ 2400');
  expect(sidesPromQL(to, match)).not.toContain('\n');
});

it('the figures are those of the table, unrounded', () => {
  const group = (mean: number) => ({ labels: {}, count: 0, mean, quantiles: { 0.5: mean / 2, 0.95: mean * 2, 0.99: null } }) as never;
  const csv = sidesCsv(w, { before: { count: 900, seconds: 1800, errors: 9, group: group(0.2) }, after: { count: 0, seconds: 0, errors: 0, group: undefined } }, [{ component: 'db', before: 0.05, after: null }]);
  expect(csv).toBe(`figure,before,after
start,1970-01-01T00:10:00Z,1970-01-01T00:40:00Z
end,1970-01-01T00:40:00Z,1970-01-01T01:10:00Z
requests,900,0
requests_per_second,0.5,
q0.5,0.1,
q0.95,0.4,
q0.99,,
mean,0.2,
error_ratio,0.01,
seconds_per_request_db,0.05,
`);
});
