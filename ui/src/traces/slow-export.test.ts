import { expect, test } from 'vitest';
import { tracesAddress, tracesCommand, tracesCsv } from './slow-export';
import type { TraceRow } from '../shared/api/schema';

const q = { match: '{service="shop",tenant="it\'s"}', start: 1000, end: 2000, min: 0.25, max: undefined, why: 'failed', sort: 'newest', limit: 100, where: true } as const;

test('the list of requests for a terminal', () => {
  expect(tracesCommand(q, 'http://127.0.0.1:7099')).toBe(
    `tailscope query traces --match '{service="shop",tenant="it'\\''s"}' --start 1000 --end 2000 --min 0.25s --why failed --sort newest --limit 100 --where`,
  );
  expect(tracesCommand({ match: '{service="shop"}', start: 1, end: 2, sort: 'slowest' }, 'http://host:1')).toBe(
    `tailscope query traces --match '{service="shop"}' --start 1 --end 2 --server http://host:1`,
  );
});

test('its address names what was asked, and nothing else', () => {
  const u = new URL(tracesAddress(q, 'http://host:1'));
  expect(u.pathname).toBe('/api/v1/traces');
  expect(Object.fromEntries(u.searchParams)).toEqual({ match: q.match, start: '1000', end: '2000', min: '0.25', why: 'failed', sort: 'newest', limit: '100', where: 'true' });
});

test('a line for each request', () => {
  const row: TraceRow = { trace_id: 'a1', span_id: 'b2', service: 'shop', operation: 'GET /a,b', failed: true, why: ['slow', 'failed'], start: 1767225600.5, duration: 1.25 };
  expect(tracesCsv([row])).toBe('trace_id,span_id,start,duration_seconds,service,operation,tenant,result,kept_as,longest_service,longest_operation,longest_component,longest_share\na1,b2,2026-01-01T00:00:00.500Z,1.25,shop,"GET /a,b",,error,slow failed,,,,\n');
  const longest = { service: 'shop', operation: 'INSERT', component: 'db', itself: false, share: 0.5 };
  expect(tracesCsv([{ ...row, longest }])).toMatch(/,slow failed,shop,INSERT,db,0.5\n$/);
  expect(tracesCsv([])).toMatch(/^trace_id.*\n$/);
});
