// Differences of answers as the page lists them.

import { csvCell } from '../shared/text/export';
import type { MirrorDifference, MirrorExample } from '../shared/api/schema';

/** Rows of one candidate that hold the words: real ones first, then those that differ most, in tenths, so that they keep their places while counts grow. */
export function showsOf(rows: MirrorDifference[], candidate: string, search: string): MirrorDifference[] {
  const w = search.trim().toLowerCase();
  const share = (r: MirrorDifference) => (r.compared ? Math.round((10 * r.raw) / r.compared) : 0);
  return rows
    .filter((r) => r.shadow === candidate && (!w || `${r.operation} ${r.place}`.toLowerCase().includes(w)))
    .sort((a, b) => Number(b.real) - Number(a.real) || share(b) - share(a) || a.operation.localeCompare(b.operation) || a.place.localeCompare(b.place));
}

/** Whether the difference is to be looked at: it is real, or there is nothing to tell by. */
export const matters = (r: MirrorDifference) => r.real || r.noise == null;

/** What tells examples apart, also two that are the same. */
export function exampleKeys(list: MirrorExample[]): string[] {
  const seen = new Map<string, number>();
  return list.map((x) => {
    const key = `${x.id} ${x.shadow} ${x.places.map((p) => p.place).join()}`;
    const n = seen.get(key) ?? 0;
    seen.set(key, n + 1);
    return n ? `${key} ${n}` : key;
  });
}

/** A text in which the markers that stand for secrets are told apart. */
export function markedSecrets(s: string): { text: string; secret: boolean }[] {
  const out: { text: string; secret: boolean }[] = [];
  let from = 0;
  for (const m of s.matchAll(/redacted-[0-9a-f]{10}/g)) {
    if (m.index > from) out.push({ text: s.slice(from, m.index), secret: false });
    out.push({ text: m[0], secret: true });
    from = m.index + m[0].length;
  }
  if (from < s.length || !out.length) out.push({ text: s.slice(from), secret: false });
  return out;
}

/** Rows as CSV. */
export function answersCsv(rows: MirrorDifference[]): string {
  return ['shadow,operation,place,compared,differ,noise,noise_of,p,real', ...rows.map((r) => [csvCell(r.shadow), csvCell(r.operation), csvCell(r.place), r.compared, r.raw, r.noise ?? '', r.noise_of, r.p ?? '', r.real].join())].join('\n') + '\n';
}
