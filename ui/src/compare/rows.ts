// Operations and tenants of a comparison by what is known of them, and what is
// said where none changed.

import { needs } from '../shared/verdict/words';
import type { CompareRow } from '../shared/api/schema';

/** What rows are judged by, unless other measures were asked for. */
export const rowMeasures = ['p50', 'p95', 'p99', 'errors'];

// What is known of errors alone is too little.
const tooLittle = (r: CompareRow) => r.measures.every((m) => m.verdict === 'too little data' || (m.name === 'errors' && !m.change && r.measures.length > 1));

/** Rows by what is known of them: those that changed, those without evidence of it, and those with too little data. */
export const sortRows = (rows: CompareRow[]): { changed: CompareRow[]; rest: CompareRow[]; little: CompareRow[] } => ({
  changed: rows.filter((r) => r.changed),
  rest: rows.filter((r) => !r.changed && !tooLittle(r)),
  little: rows.filter((r) => !r.changed && tooLittle(r)),
});

/** What stands for a list in which nothing changed: what was looked at, or what is missing to do so. */
export function noneChanged(rest: number, little: CompareRow[], what: 'operation' | 'tenant'): string {
  if (rest + little.length === 0) return `No ${what} has 100 requests on both sides.`;
  if (rest > 0) {
    const none = `None of ${rest === 1 ? 'one' : rest} changed beyond chance, adjusted for how many were looked at.`;
    return little.length ? `${none} Of ${little.length} more there is too little data to tell.` : none;
  }
  const whys = [...new Set(little.flatMap((r) => r.measures).map(needs).filter(Boolean))];
  const why = whys.length === 1 ? `: ${whys[0]}` : whys.length ? `, for instance ${whys[0]}` : '';
  return `Too little data to tell of ${little.length === 1 ? `the one ${what}` : `any of ${little.length} ${what}s`} whether it changed${why}.`;
}

/**
 * The labels that a row of a metric is named by: operation=GET /a status=ok,
 * of the names operation and status. A value may hold anything but the next name.
 */
export function labelsOf(text: string, names: string[]): Record<string, string> {
  const at: { name: string; from: number; value: number }[] = [];
  let after = 0;
  for (const name of names) {
    const from = at.length ? text.indexOf(` ${name}=`, after) : text.startsWith(`${name}=`) ? 0 : -1;
    if (from < 0) continue;
    after = from + name.length + (at.length ? 2 : 1);
    at.push({ name, from, value: after });
  }
  return Object.fromEntries(at.map((x, i) => [x.name, text.slice(x.value, at[i + 1]?.from)]));
}
