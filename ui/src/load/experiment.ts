// An experiment as the page shows it: its settings and what differs, its rows as
// the judgement of a session is drawn, and each setting's figure per round.

import type { Experiment, ExperimentCurve, ExperimentMeasure, ExperimentRow, ExperimentRun, ExperimentSetting, MirrorMeasure, MirrorRow } from '../shared/api/schema';
import { plainName as experimentMeasureName } from '../shared/verdict/effect';
import { count, errorRatio, missing, value } from '../shared/text/format';
import { perSecond } from './bench';
import { cell, type Sheet } from './sheets';
import type { Num } from '../shared/api/types';

export const settingsOf = (t: Experiment): ExperimentSetting[] => t.settings;
export const controlOf = (t: Experiment): ExperimentSetting | undefined => settingsOf(t).find((s) => s.control) ?? settingsOf(t)[0];

/** A figure of a measure, in its unit. */
export function experimentFigure(name: string, v: Num | undefined): string {
  if (v == null) return missing;
  if (name === 'errors') return errorRatio(v);
  if (name === 'rate') return perSecond(v);
  if (/bytes/.test(name)) return value(v, 'bytes');
  return /^p\d+$|^(mean|max|min|latency|first_byte)$|seconds|cpu/.test(name) ? value(v) : value(v, '');
}

export { experimentMeasureName };

export const asMeasure = (m: ExperimentMeasure): MirrorMeasure => ({ ...m, reference: m.control, candidate: m.variant, floor: null, floor_low: null, floor_high: null, noise: null });

/** The name of a row: its query or tenant, or all together. */
export const rowName = (r: Pick<ExperimentRow, 'query' | 'tenant' | 'effect'>) => `${r.tenant ? `tenant ${r.tenant}` : r.query || 'all together'}${r.effect ? `, ${r.effect === 'main' ? 'main effect' : r.effect}` : ''}`;

export interface DrawnRow extends MirrorRow {
  sub: string;
  of: ExperimentRow;
}

/** Rows as those of a session, by the measure chosen or by what says most; without it they are left out. What is not against the control says so. */
export function drawnRows(rows: ExperimentRow[], measure: string, control?: string): DrawnRow[] {
  return rows.flatMap((r) => {
    const lead = r.measures.find((m) => m.name === (measure || r.lead)) ?? (measure ? undefined : r.measures[0]);
    if (!lead && measure) return [];
    return [{ name: rowName(r), sub: r.setting + (control && r.against !== control ? ` against ${r.against}` : ''), requests: r.requests, verdict: measure && lead ? lead.verdict : r.verdict, lead: lead?.name ?? '', measures: r.measures.map(asMeasure), of: r }];
  });
}

/** The row of a setting against the control with everything together. */
export const wholeRow = (t: Experiment, setting: string): ExperimentRow | undefined => t.rows.find((r) => r.setting === setting && r.against === controlOf(t)?.name && !r.query && !r.tenant && !r.effect);

/** Variables that settings have, and whether they differ: the changed ones first. */
export function variables(t: Experiment): { name: string; differs: boolean }[] {
  const names = [...new Set(settingsOf(t).flatMap((s) => Object.keys(s.values)))];
  const all = names.map((name) => ({ name, differs: new Set(settingsOf(t).map((s) => s.values[name])).size > 1 }));
  return [...all.filter((v) => v.differs), ...all.filter((v) => !v.differs)];
}

/** Queries that rounds or curves know, everything together first. */
export function experimentQueries(t: Experiment): string[] {
  const names = new Set<string>();
  for (const r of t.rounds) for (const q of Object.keys(r.figures)) names.add(q);
  for (const c of t.curves) names.add(c.query);
  return [...names].sort((a, b) => Number(a !== '') - Number(b !== '') || a.localeCompare(b, 'en', { numeric: true }));
}

const usual = ['p50', 'p75', 'p90', 'p95', 'p99', 'p999', 'mean', 'errors', 'rate'];

/** Measures that rounds have of a query, the usual ones first. */
export function experimentMeasures(t: Experiment, query: string): string[] {
  const names = new Set<string>();
  for (const r of t.rounds) for (const m of Object.keys(r.figures[query] ?? {})) names.add(m);
  for (const c of t.curves) if (c.query === query) names.add(c.measure);
  const rank = (m: string) => (usual.indexOf(m) + usual.length + 1) % (usual.length + 1);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

export interface Column {
  setting: ExperimentSetting;
  dots: { run: ExperimentRun; v: number }[];
  value: Num;
  low: Num;
  high: Num;
  /** Among those that cannot be told from the best; the best itself. */
  candidate: boolean;
  best: boolean;
}

export const median = (vs: number[]): Num => {
  const s = [...vs].sort((a, b) => a - b);
  return s.length ? (s[(s.length - 1) >> 1] + s[s.length >> 1]) / 2 : null;
};

/** What is drawn of one measure of one query: a column for each setting, in order of the variable where it is a number. */
export function columnsOf(t: Experiment, query: string, measure: string): { columns: Column[]; curve: ExperimentCurve | undefined } {
  const curve = t.curves.find((c) => c.query === query && c.measure === measure);
  const columns = settingsOf(t).map((setting) => {
    const dots = t.rounds.filter((r) => r.setting === setting.name).flatMap((run) => {
      const v = run.figures[query]?.[measure];
      return v == null ? [] : [{ run, v }];
    });
    const p = curve?.points?.find((x) => x.setting === setting.name);
    return { setting, dots, value: p?.value ?? median(dots.filter((d) => d.run.valid).map((d) => d.v)), low: p?.low ?? null, high: p?.high ?? null, candidate: !!curve?.candidates?.includes(setting.name), best: curve?.best === setting.name };
  });
  if (columns.every((c) => c.setting.x != null)) columns.sort((a, b) => a.setting.x! - b.setting.x!);
  return { columns, curve };
}

/** Where a value axis begins and ends, and its lines: it holds all values, and zero where they come near it. */
export function valueAxis(values: (Num | undefined)[]): { min: number; max: number; ticks: number[] } {
  const vs = values.filter((v): v is number => v != null && Number.isFinite(v));
  if (!vs.length) return { min: 0, max: 1, ticks: [0, 1] };
  let [min, max] = [Math.min(...vs), Math.max(...vs)];
  if (min >= 0 && min < max * 0.5) min = 0;
  if (max === min) max = min + (Math.abs(min) || 1) * 0.1;
  const rough = (max - min) / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((k) => k * size >= rough) ?? 10) * size;
  const first = Math.floor(min / step + 1e-9);
  const last = Math.ceil(max / step - 1e-9);
  return { min: first * step, max: last * step, ticks: Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12))) };
}

const rules: Record<string, string> = { fixed: 'A fixed number of rounds', precision: 'As many rounds as the wanted precision takes (Stein’s two stages)', decided: 'Stopped as soon as it is decided, by an interval that holds at every look' };

/** The rule by which rounds end, and where it stands. */
export function stoppingText(t: Experiment): string {
  const s = t.stopping;
  const fixed = s.rule === 'fixed';
  const wanted = fixed ? '' : s.precision ? `: ± ${Number((s.precision * 100).toPrecision(3))} % of ${experimentMeasureName(s.measure)}` : `, decided by ${experimentMeasureName(s.measure)}`;
  const range = !fixed && s.at_most ? `, ${s.at_least} to ${s.at_most} rounds` : '';
  return `${rules[s.rule] ?? s.rule}${wanted}${range}. ${count(s.done)} of ${count(s.planned)} rounds done.`;
}

/** Best settings in words: workers=4; or 2 to 8, which cannot be told apart. */
export const bestText = (c: ExperimentCurve) => (c.candidates.length > 1 ? `${c.best}, not told from ${c.candidates!.filter((s) => s !== c.best).join(', ')}` : c.best);

export function curvesSheet(t: Experiment): Sheet {
  return {
    title: 'Best settings', head: ['query', ' measure', ' best', ' cannot be told from it', 'best in'],
    rows: t.curves.map((c) => {
      const p = c.points.find((x) => x.setting === c.best);
      return [cell(c.query || 'all together'), cell(experimentMeasureName(c.measure)), cell(`${c.best}${p?.value != null ? `: ${experimentFigure(c.measure, p.value)}` : ''}`, undefined, { title: c.sentence }), cell(c.candidates.filter((s) => s !== c.best).join(', ') || 'nothing: it is the best alone'), cell(p?.best_in != null ? `${Math.round(p.best_in * 100)} % of rounds` : missing, p?.best_in)];
    }),
  };
}

export function roundsSheet(t: Experiment, measure: string): Sheet {
  return {
    title: 'Rounds', head: ['round', 'turn', ' setting', 'took', experimentMeasureName(measure), 'errors', 'rate', ' warm-up', ' counts'],
    rows: t.rounds.map((r) => {
      const f = r.figures[''] ?? {};
      const took = r.end != null && r.start != null ? r.end - r.start : null;
      return [cell(r.round, r.round), cell(r.order, r.order), cell(r.setting), cell(value(took), took), ...[measure, 'errors', 'rate'].map((m) => cell(experimentFigure(m, f[m]), f[m] ?? null)), cell(r.warm_up ? `${value(r.warm_up.seconds)}, ${r.warm_up.steady ? 'steady' : 'not steady'}` : '', undefined, { title: r.warm_up?.why }), cell(r.valid ? 'yes' : `no: ${r.why ?? 'invalid'}`, undefined, { bad: !r.valid })];
    }),
  };
}

export function rowsSheet(t: Experiment): Sheet {
  return {
    title: 'Against the control', head: ['query', ' setting', ' against', ' measure', 'control', 'variant', 'effect', 'low', 'high', 'adjusted p', ' verdict', 'rounds'],
    rows: t.rows.flatMap((r) => r.measures.map((m) => [cell(rowName(r)), cell(r.setting), cell(r.against), cell(m.name), cell(experimentFigure(m.name, m.control)), cell(experimentFigure(m.name, m.variant)), ...[m.effect, m.low, m.high, m.adjusted_p].map((v) => cell(v == null ? '' : String(Number(v.toPrecision(6))), v)), cell(m.verdict), cell(r.rounds, r.rounds)])),
  };
}

/** What of an experiment is loud: it went wrong, and how. */
export function alarms(t: Experiment, state: string): string[] {
  const over = state !== 'running';
  return [
    t.restore_error ? `The control was not restored: ${t.restore_error}. What was tried may still be set: apply the control by hand.` : over && !t.restored ? 'Whether the control was restored is not known: its program ended before it said so. Look at the target; the next start of this experiment restores it first.' : '',
    t.failed ? `It ended before its time: ${t.failed}.` : '',
    t.gate && !t.gate.passed ? `The gate is shut: worse than ${t.gate.baseline} by more than ${Number(((t.gate.allowed ?? 0) * 100).toPrecision(3))} %. ${t.gate.why.join('; ')}` : '',
  ].filter(Boolean);
}
