// What the copy buttons give: breakdowns and operations for a spreadsheet.
// Times are RFC 3339 in UTC, durations seconds.

import type { Backend, BreakdownResponse, OperationsResponse } from '../shared/api/schema';
import type { Num } from '../shared/api/types';
import { csvCell, utc } from '../shared/text/export';

const lines = (rows: (Num | string | undefined)[][]) => rows.map((r) => r.map(csvCell).join(',')).join('\n') + '\n';

/** One line per step and component. */
export function breakdownCsv(b: BreakdownResponse): string {
  const out: (Num | string | undefined)[][] = [['start', 'end', 'component', 'requests', 'exclusive_seconds', 'critical_seconds']];
  b.times.forEach((t, i) => {
    for (const c of b.components) out.push([utc(t), utc(t + b.step), c.component, b.requests[i], c.self[i], c.critical?.[i]]);
  });
  return lines(out);
}

/** One line per part, with the chosen band beside the typical request. */
export function partsCsv(b: BreakdownResponse): string {
  const quantiles = Object.keys(b.parts?.find((p) => p.quantiles)?.quantiles ?? {});
  return lines([
    ['service', 'component', 'operation', 'exclusive_seconds', 'share', 'critical_share', 'calls', 'calls_per_request', 'requests_with', 'repeated', 'mean', ...quantiles.map((q) => `q${q}`), 'band_seconds', 'typical_seconds', 'band_calls', 'typical_calls'],
    ...(b.parts ?? []).map((p) => [
      p.service, p.component, p.operation, p.seconds, p.share, p.critical_share, p.calls, p.per_request, p.requests, p.repeated, p.mean, ...quantiles.map((q) => p.quantiles?.[q]),
      p.band?.seconds, p.typical?.seconds, p.band?.calls, p.typical?.calls,
    ]),
  ]);
}

/** One line per node that calls go to. */
export function backendsCsv(list: Backend[]): string {
  const quantiles = Object.keys(list[0]?.quantiles ?? {});
  return lines([
    ['component', 'system', 'node', 'seconds', 'share', 'calls', 'effective', 'calls_per_request', 'errors', 'mean', ...quantiles.map((q) => `q${q}`)],
    ...list.map((b) => [b.component, b.system, b.peer, b.seconds, b.share, b.calls, b.effective, b.per_request, b.errors, b.mean, ...quantiles.map((q) => b.quantiles[q])]),
  ]);
}

/** One line per operation of the page. */
export function operationsCsv(o: OperationsResponse): string {
  const quantiles = Object.keys(o.operations[0]?.quantiles ?? {});
  return lines([
    ['service', 'operation', 'component', 'kind', 'verb', 'calls', 'calls_per_second', 'errors', 'seconds', 'share', 'mean', ...quantiles.map((q) => `q${q}`)],
    ...o.operations.map((r) => [r.service, r.operation, r.component, r.kind, r.verb, r.calls, r.rate, r.errors, r.seconds, r.share, r.mean, ...quantiles.map((q) => r.quantiles[q])]),
  ]);
}
