// The figures that the page and the program both write, for their tests.

import { readFileSync } from 'node:fs';

export interface FigureCase {
  figure: string;
  unit: string;
  of: number;
  text: string;
}

/** The cases of these figures; it throws where there is none of one. */
export function figuresOf(...figures: string[]): FigureCase[] {
  const all = JSON.parse(readFileSync(new URL('../../../../internal/figure/testdata/figures.json', import.meta.url), 'utf8')) as FigureCase[];
  for (const f of figures) if (!all.some((c) => c.figure === f)) throw new Error(`no case of ${f}`);
  return all.filter((c) => figures.includes(c.figure));
}
