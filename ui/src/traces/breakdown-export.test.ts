import { expect, it } from 'vitest';
import { backendsCsv, breakdownCsv, operationsCsv, partsCsv } from './breakdown-export';
import type { BreakdownResponse, OperationsResponse } from '../shared/api/schema';

const b: BreakdownResponse = {
  start: 1795150800, end: 1795150860, step: 60, slot: 10, times: [1795150800], requests: [4], total: 4, seconds: 2,
  components: [{ component: 'db', self: [0.5], critical: [0.25], seconds: 0.5, share: 0.25, critical_share: 0.125, error: 0.02 }],
  parts: [{
    service: 's', component: 'db', operation: 'SELECT "a", b', seconds: 0.5, share: 0.25, critical_share: 0.125, calls: 8, per_request: 2, requests: 4, repeated: 0,
    n_plus_one: false, mean: 0.0625, quantiles: { '0.5': 0.06, '0.99': null }, error: 0.02, band: { seconds: 0.2, critical: 0.1, share: 0.5, calls: 3 },
  }],
};

it('gives a line per step and component, in UTC', () => {
  expect(breakdownCsv(b)).toBe('start,end,component,requests,exclusive_seconds,critical_seconds\n2026-11-20T05:00:00Z,2026-11-20T05:01:00Z,db,4,0.5,0.25\n');
});

it('quotes names, and leaves out what is not known', () => {
  const [head, line] = partsCsv(b).trim().split('\n');
  expect(head).toBe('service,component,operation,exclusive_seconds,share,critical_share,calls,calls_per_request,requests_with,repeated,mean,q0.5,q0.99,band_seconds,typical_seconds,band_calls,typical_calls');
  expect(line).toBe('s,db,"SELECT ""a"", b",0.5,0.25,0.125,8,2,4,0,0.0625,0.06,,0.2,,3,');
});

it('gives the operations of a page, or only its head', () => {
  const o: OperationsResponse = { start: 0, end: 60, step: 60, times: [0], total: 0, seconds: 0, operations: [] };
  expect(operationsCsv(o)).toBe('service,operation,component,kind,verb,calls,calls_per_second,errors,seconds,share,mean\n');
});

it('nodes have a line each', () => {
  const node = { component: 'db', system: 'riak', peer: 'riak-1:8087', seconds: 5, share: 0.5, calls: 10, per_request: 2, errors: 1, mean: 0.5, quantiles: { '0.5': 0.4 }, error: 0 };
  expect(backendsCsv([node])).toBe('component,system,node,seconds,share,calls,effective,calls_per_request,errors,mean,q0.5\ndb,riak,riak-1:8087,5,0.5,10,,2,1,0.5,0.4\n');
});
