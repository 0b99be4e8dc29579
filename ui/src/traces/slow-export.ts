// What the copy buttons give of a list of kept requests: a command, an address
// and a table. Times are RFC 3339 in UTC, durations seconds.

import type { TraceRow } from '../shared/api/schema';
import { cliCommand, csvCell } from '../shared/text/export';
import { shellQuote } from '../shared/page/match';
import { spanFamily } from '../shared/page/url';
import type { TracesQuestion } from '../shared/api/traces';

export function tracesCommand(q: TracesQuestion, server: string): string {
  const parts = [cliCommand('traces', spanFamily, spanFamily, q.match, false, q.start, q.end, server)];
  if (q.min !== undefined) parts.push('--min', `${q.min}s`);
  if (q.max !== undefined) parts.push('--max', `${q.max}s`);
  if (q.why) parts.push('--why', shellQuote(q.why));
  if (q.sort === 'newest') parts.push('--sort', q.sort);
  if (q.limit) parts.push('--limit', String(q.limit));
  if (q.where) parts.push('--where');
  return parts.join(' ');
}

export function tracesAddress(q: TracesQuestion, server: string): string {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(q)) if (v !== undefined && v !== '') p.set(k, String(v));
  return `${server}/api/v1/traces?${p}`;
}

/** One line per kept request, as they are listed. */
export function tracesCsv(rows: TraceRow[]): string {
  const out = ['trace_id,span_id,start,duration_seconds,service,operation,tenant,result,kept_as,longest_service,longest_operation,longest_component,longest_share'];
  for (const r of rows) {
    out.push(
      [r.trace_id, r.span_id, new Date(r.start * 1000).toISOString(), String(r.duration), r.service, r.operation, r.tenant ?? '', r.failed ? 'error' : 'ok', r.why.join(' '), r.longest?.service ?? '', r.longest?.operation ?? '', r.longest?.component ?? '', r.longest ? String(r.longest.share) : ''].map(csvCell).join(','),
    );
  }
  return `${out.join('\n')}\n`;
}
