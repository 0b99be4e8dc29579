// A comparison for a terminal, a report and a spreadsheet.

import type { CompareMeasure, CompareResponse } from '../shared/api/schema';
import { effectWords, figure, judged, needs, sideTime, twoDigits } from '../shared/verdict/words';
import { count, percent, rate } from '../shared/text/format';
import { rowMeasures } from './rows';
import { shellQuote } from '../shared/page/match';
import type { Params } from '../shared/api/client';
import { csvCell, markdownCell, serverFlag } from '../shared/text/export';

/** The parameters that the command takes by --set. */
const settings = ['per', 'start', 'end', 'window', 'settle', 'like', 'tz', 'level', 'allow', 'live'];

/** The command that asks the same. Of the parameters of /api/v1/compare. */
export function compareCommand(params: Params, server: string): string {
  const parts = ['tailscope', 'compare'];
  const label = params.label != null && params.label !== '';
  const window = (v: string) => (label ? v : v.replaceAll('/', '..'));
  for (const k of ['family', 'per', 'match', 'start', 'end', 'mark', 'window', 'settle', 'label', 'a', 'b', 'days', 'like', 'tz', 'within', 'level', 'allow', 'live']) {
    const v = params[k];
    if (v == null || v === '') continue;
    if (settings.includes(k)) parts.push('--set', shellQuote(`${k}=${k === 'live' ? 'true' : v}`));
    else parts.push(`--${k}`, shellQuote(k === 'a' || k === 'b' ? window(String(v)) : String(v)));
  }
  parts.push(...serverFlag(server));
  return parts.join(' ');
}

/** A short report in Markdown. */
export function compareMarkdown(r: CompareResponse, unit: string, address: string): string {
  const out = [`## ${r.sentence}`, '', `Verdict: **${r.verdict}**. [Open it](${address})`, ''];
  for (const [letter, s] of [['A', r.a], ['B', r.b]] as const) {
    out.push(`- ${letter}${s.name === letter ? '' : ` ${markdownCell(s.name)}`}: ${sideTime(s)}, ${count(s.requests)} requests${s.effective ? ` (sampled: they say as much as ${count(s.effective)})` : ''}, ${rate(s.rate)}, ${count(s.errors)} failed`);
  }
  out.push('', '| | A | B | like for like | interval | raw | verdict |', '|---|---:|---:|---|---|---|---|');
  for (const m of r.measures) {
    const e = effectWords(m, judged(m));
    out.push(`| ${m.name} | ${figure(m, judged(m).a, unit)} | ${figure(m, judged(m).b, unit)} | ${m.like_for_like ? e.size : '–'} | ${e.interval} | ${effectWords(m, m.raw).size} | ${markdownCell([m.verdict, needs(m)].filter(Boolean).join('; '))} |`);
  }
  for (const [what, rows] of [['Operation', r.operations], ['Tenant', r.tenants]] as const) {
    const changed = (rows ?? []).filter((x) => x.changed);
    if (!changed.length) continue;
    out.push('', `| ${what} changed | ${rowMeasures.join(' | ')} | requests |`, `|---|${'---|'.repeat(rowMeasures.length)}---:|`);
    for (const x of changed) {
      const of = rowMeasures.map((n) => {
        const m = x.measures.find((y) => y.name === n);
        return m ? [effectWords(m, judged(m)).size, m.change ? `(${effectWords(m, judged(m)).interval})` : ''].join(' ').trim() : '–';
      });
      out.push(`| ${markdownCell(x.operation ?? x.tenant ?? '')} | ${of.join(' | ')} | ${count(x.requests_a)} → ${count(x.requests_b)} |`);
    }
  }
  if (r.warnings.length) out.push('', ...r.warnings.map((w) => `- warning: ${w.text}`));
  out.push('', `Intervals of ${twoDigits(r.level * 100)} %; ${r.paired ? 'slots compared in pairs' : r.a.windows ? `${r.a.windows.length} windows against ${r.b.windows?.length}` : 'windows that differ in time'}, slots of ${r.slot} s; like for like covers ${percent(r.covered)}.`);
  return `${out.join('\n')}\n`;
}

/** One line per measure: seconds, bytes or shares; effects as ratios or differences. Rows of the lists follow. */
export function compareCsv(r: CompareResponse): string {
  const out = ['of,measure,scale,a,b,effect,low,high,p,verdict,change,raw_effect,raw_low,raw_high,raw_verdict'];
  const line = (of: string, m: CompareMeasure) => {
    const f = judged(m);
    out.push([csvCell(of), m.name, m.scale, f.a, f.b, f.effect, f.low, f.high, f.p, m.verdict, m.change ?? '', m.raw.effect, m.raw.low, m.raw.high, m.raw.verdict].map((x) => x ?? '').join(','));
  };
  for (const m of r.measures) line(r.of, m);
  for (const x of [...r.operations, ...r.tenants]) for (const m of x.measures) line(x.operation ?? x.tenant ?? '', m);
  return `${out.join('\n')}\n`;
}
