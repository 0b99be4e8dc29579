// What the copy buttons give: the same view for a terminal, for PromQL and for
// a spreadsheet.

import type { Heat } from '../chart/heat';
import { shellQuote } from '../page/match';

/** A cell of CSV, in quotes where it needs them (RFC 4180); empty where there is nothing. */
export function csvCell(v: string | number | boolean | null | undefined): string {
  const s = v == null ? '' : String(v);
  return /[",\n\r]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s;
}

/** A cell of a table in Markdown. */
export const markdownCell = (s: string) => s.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** A moment in UTC, as spreadsheets and commands read it (RFC 3339). */
export const utc = (t: number) => new Date(t * 1000).toISOString().replace('.000', '');

/** What names the server to a command, nothing for the usual one. */
export const serverFlag = (server: string): string[] => (server && server !== 'http://127.0.0.1:7099' ? ['--server', shellQuote(server)] : []);

/** The heatmap in the terminal. Without kinds the command would mean requests. Times are Unix seconds, so the command means the same tomorrow. */
export function cliCommand(kind: string, family: string, spanFamily: string, match: string, allKinds: boolean, start: number, end: number, server: string): string {
  const parts = ['tailscope', 'query', kind];
  if (match) parts.push('--match', shellQuote(match));
  if (allKinds) parts.push('--kind', 'all');
  if (family !== spanFamily) parts.push('--family', shellQuote(family));
  parts.push('--start', String(start), '--end', String(end));
  parts.push(...serverFlag(server));
  return parts.join(' ');
}

/** A quantile over the same selection; the window is one column, at least a minute. */
export function promQuantile(family: string, match: string, q: number, step: number): string {
  const window = Math.max(60, step);
  const w = window % 3600 === 0 ? `${window / 3600}h` : window % 60 === 0 ? `${window / 60}m` : `${window}s`;
  return `histogram_quantile(${q}, sum(rate(${family}${match}[${w}])))`;
}

/** One line per occupied cell. Times are RFC 3339 in UTC; bounds are (low, high]. */
export function heatCsv(h: Heat, unit: string): string {
  const suffix = unit ? `_${unit}` : '';
  const out = [`start,end,low${suffix},high${suffix},count`];
  for (let c = 0; c < h.columns; c++) {
    const t = h.start + c * h.step;
    const from = utc(t);
    const to = utc(t + h.step);
    for (let k = h.first[c]; k < h.first[c + 1]; k++) {
      out.push(`${from},${to},${h.bounds[h.row[k]]},${h.bounds[h.row[k] + 1]},${h.n[k]}`);
    }
  }
  return `${out.join('\n')}\n`;
}
