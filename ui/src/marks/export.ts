// What the copy buttons of a mark give: both sides for a terminal, for PromQL
// and for a spreadsheet.

import type { Range } from '../shared/api/schema';
import { cliCommand, utc } from '../shared/text/export';
import type { PartRow, Side } from './sides';
import type { Num } from '../shared/api/types';
import { spanFamily } from '../shared/page/url';

export interface Sides<T> {
  before: T;
  after: T;
}

const whole = (w: Range) => w.end > w.start;
const both = (w: Sides<Range>, line: (w: Range) => string) => [w.before, w.after].filter(whole).map(line).join('\n');

/** A command for each window that has begun. */
export const sidesCommand = (w: Sides<Range>, match: string, server: string) =>
  both(w, ({ start, end }) => cliCommand('distribution', spanFamily, spanFamily, match, false, start, end, server));

/** p95 of each window, at the moment it ends. */
export const sidesPromQL = (w: Sides<Range>, match: string) =>
  both(w, ({ start, end }) => `histogram_quantile(0.95, sum(rate(${spanFamily}${match}[${end - start}s] @ ${end})))`);

/** One line per figure, durations in seconds; time per request and component follows the figures. */
export function sidesCsv(w: Sides<Range>, s: Sides<Side>, parts: PartRow[]): string {
  const per = (n: number, of: number): Num => (of > 0 ? n / of : null);
  const row = (name: string, f: (k: 'before' | 'after') => Num | string | undefined) => `${name},${f('before') ?? ''},${f('after') ?? ''}`;
  return [
    'figure,before,after',
    row('start', (k) => utc(w[k].start)), row('end', (k) => utc(w[k].end)),
    row('requests', (k) => s[k].count), row('requests_per_second', (k) => per(s[k].count, s[k].seconds)),
    ...['0.5', '0.95', '0.99'].map((q) => row(`q${q}`, (k) => s[k].group?.quantiles?.[q])),
    row('mean', (k) => s[k].group?.mean), row('error_ratio', (k) => per(s[k].errors, s[k].count)),
    ...parts.map((p) => row(`seconds_per_request_${p.component}`, (k) => p[k])),
  ].join('\n') + '\n';
}
