// Plain tables of a report: the same cells on the page and in CSV.

import { csvCell } from '../shared/text/export';

export interface Cell {
  text: string;
  /** What it is sorted by, if not by its text. */
  by?: number | null;
  bad?: boolean;
  good?: boolean;
  title?: string;
}

export interface Sheet {
  title: string;
  /** Names; those after the first that begin with a space are of texts, and stand on the left. */
  head: string[];
  rows: Cell[][];
  note?: string;
}

export const cell = (text: string | number, by?: number | null, more: Partial<Cell> = {}): Cell => ({ text: String(text), by, ...more });

/** Rows in order of a column, by its place; a leading minus turns it round. What has no value comes last. */
export function sortSheet(rows: Cell[][], sort: string): Cell[][] {
  const k = Math.abs(Number(sort || NaN));
  if (!Number.isInteger(k) || !rows[0]?.[k - 1]) return rows;
  const turn = sort.startsWith('-') ? -1 : 1;
  return [...rows].sort((x, y) => {
    const [a, b] = [x[k - 1], y[k - 1]];
    if (a.by === undefined && b.by === undefined) return turn * a.text.localeCompare(b.text, 'en', { numeric: true });
    if (a.by == null || b.by == null) return Number(a.by == null) - Number(b.by == null);
    return turn * (a.by - b.by);
  });
}

/** Every table, one after the other, with its name in the first column. */
export function sheetsCsv(sheets: Sheet[]): string {
  const out: string[] = [];
  for (const s of sheets) {
    if (!s.rows.length) continue;
    out.push(['table', ...s.head.map((h) => h.trim())].map(csvCell).join());
    for (const r of s.rows) out.push([s.title, ...r.map((c) => c.text)].map(csvCell).join());
  }
  return `${out.join('\n')}\n`;
}
