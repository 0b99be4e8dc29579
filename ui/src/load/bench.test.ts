import { expect, test } from 'vitest';
import { benchReport, experimentReport } from '../../e2e/seed-experiments';
import * as bench from './bench';
import { sheetsCsv, sortSheet } from './sheets';
import { alarms, asMeasure, bestText, columnsOf, curvesSheet, drawnRows, median, roundsSheet, stoppingText, experimentFigure, experimentMeasureName, experimentMeasures, experimentQueries, valueAxis, variables, wholeRow } from './experiment';
import type { BenchResult, Experiment } from '../shared/api/schema';

const run = () => benchReport('solr', 1_700_000_000, true).bench as unknown as BenchResult;
const tried = (done = 12, ended = true, restored = true) => experimentReport('nginx', 1_700_000_000, done, ended, restored).experiment as unknown as Experiment;

test('the account closes, or says by how much it does not', () => {
  const b = run();
  expect(bench.unaccounted(b.account)).toBe(0);
  expect(bench.account(b).note).toContain('The account closes');
  b.account.answered -= 7;
  b.account.unsent += 2;
  expect(bench.unaccounted(b.account)).toBe(9);
  expect(bench.account(b).note).toContain('9 requests are missing');
});

test('both clocks stand beside each other', () => {
  const b = run();
  const p99 = bench.clocks(b).rows.find((r) => r[0].text === 'p99')!;
  expect(p99[1].by! / p99[2].by!).toBeCloseTo(p99[3].by!, 9);
  expect(p99[3].bad).toBe(true);
  const c = bench.curveOf(b.latency, b.uncorrected)!;
  expect(c.a).toHaveLength(c.values!.length);
  for (const side of [c.a!, c.b!]) {
    expect(side.every((s, i) => !i || s! >= side[i - 1]!)).toBe(true);
    expect(side[side.length - 1]).toBeCloseTo(1, 6);
  }
  expect(bench.curveOf({ ...b.latency, counts: undefined }, b.uncorrected)).toBeUndefined();
});

test('readings lie on the slots of the time line, faults among the bars', () => {
  const slots = [0, 1, 2].map((time) => ({ time, width: 1 }) as BenchResult['timeline'] extends (infer T)[] ? T : never);
  expect(bench.onSlots(slots, [0.1, 0.6, 2, 9], [1, 3, null, 5])).toEqual([2, null, null]);
  const rows = bench.eventRows(run().events);
  expect(rows.find((r) => r.name === 'faults')!.of).toEqual([{ start: 1_700_000_030, end: 1_700_000_031, said: 'pause solr: SIGSTOP for 1 s', missed: true }]);
  expect(rows[0].of).toHaveLength(2);
});

test('thresholds have the unit that their words tell', () => {
  expect(bench.thresholdValue('p(99) < 300ms', 0.25)).toBe('250 ms');
  expect(bench.thresholdValue('errors < 1%', 0.0125)).toBe('1.3 %');
  expect(bench.thresholdValue('rate > 450/s', 499.9)).toBe('500/s');
});

test('tables are sorted by figures, and end in CSV', () => {
  const q = bench.queries(run());
  expect(sortSheet(q.rows, '-6').map((r) => r[0].text)).toEqual(['wildcard', 'facet', 'term']);
  expect(sortSheet(q.rows, '1').map((r) => r[0].text)).toEqual(['facet', 'term', 'wildcard']);
  expect(sortSheet(q.rows, 'x')).toBe(q.rows);
  expect(sheetsCsv([{ title: 'T', head: ['a', ' b'], rows: [[{ text: 'x,y' }, { text: '1' }]] }])).toBe('table,a,b\nT,"x,y",1\n');
});

test('settings stand in order of the variable, with their rounds and the best', () => {
  const t = tried();
  const { columns, curve } = columnsOf(t, '', 'p99');
  expect(columns.map((c) => c.setting.x)).toEqual([1, 2, 4, 8, 24]);
  expect(columns.map((c) => c.candidate)).toEqual([false, false, true, true, false]);
  expect(columns[2].best).toBe(true);
  expect(columns[0].dots.filter((d) => !d.run.valid)).toHaveLength(1);
  expect(bestText(curve!)).toBe('workers=4, not told from workers=8');
  expect(curvesSheet(t).rows).toHaveLength(3);
  t.curves = [];
  const middle = columnsOf(t, '', 'p99').columns[0];
  expect(middle.value).toBe(median(middle.dots.filter((d) => d.run.valid).map((d) => d.v)));
});

test('rows by the measure chosen, and by what says most', () => {
  const t = tried();
  const rows = drawnRows(t.rows!, '');
  expect(rows).toHaveLength(12);
  expect([rows[0].name, rows[0].sub, rows[0].lead]).toEqual(['all together', 'workers=1', 'p99']);
  expect(drawnRows(t.rows!, 'p50').every((r) => r.lead === 'p50')).toBe(true);
  expect(drawnRows(t.rows!, 'rate')).toEqual([]);
  expect(asMeasure(t.rows![0].measures![0]).reference).toBe(t.rows![0].measures![0].control);
  expect(variables(t)).toEqual([{ name: 'workers', differs: true }, { name: 'keepalive', differs: false }]);
  expect(experimentQueries(t)).toEqual(['', 'large', 'small']);
  // Of a live design a setting is held against several: their rows are told apart, and one is that of the setting.
  const live = [{ ...t.rows![0], against: 'live production' }, t.rows![0]];
  expect(drawnRows(live, '', 'workers=8').map((r) => r.sub)).toEqual(['workers=1 against live production', 'workers=1']);
  expect(wholeRow({ ...t, rows: live }, 'workers=1')).toBe(live[1]);
  expect(experimentMeasures(t, 'large')).toEqual(['p50', 'p95', 'p99', 'mean', 'errors', 'rate']);
});

test('what went wrong is loud', () => {
  expect(alarms(tried(), 'ended')).toEqual([]);
  expect(alarms(tried(5, false), 'running')).toEqual([]);
  expect(alarms(tried(5, false), 'lost')[0]).toContain('not known');
  expect(alarms(tried(12, true, false), 'ended')[0]).toContain('The control was not restored: ./reload.sh 8: exit status 1');
  const t = tried();
  t.gate = { baseline: 'base.json', passed: false, allowed: 0.05, why: ['p99 is 9 % slower'] };
  t.failed = 'interrupted';
  expect(alarms(t, 'ended')).toEqual(['It ended before its time: interrupted.', 'The gate is shut: worse than base.json by more than 5 %. p99 is 9 % slower']);
});

test('the rule says where it stands; figures have their units', () => {
  expect(stoppingText(tried())).toBe('As many rounds as the wanted precision takes (Stein’s two stages): ± 3 % of p99, 6 to 30 rounds. 12 of 12 rounds done.');
  const t = tried();
  t.stopping.rule = 'fixed';
  expect(stoppingText(t)).toBe('A fixed number of rounds. 12 of 12 rounds done.');
  expect(experimentFigure('p999', 0.0123)).toBe('12.3 ms');
  expect(experimentFigure('rate', 500)).toBe('500/s');
  expect(experimentFigure('errors', 0.002)).toBe('0.20 %');
  expect(experimentFigure('resident_bytes', 2e9)).toBe('2.00 GB');
  expect(experimentFigure('p99', null)).toBe('–');
  expect(experimentMeasureName('p999')).toBe('p99.9');
  expect(roundsSheet(tried(), 'p99').rows.filter((r) => r.some((c) => c.bad))).toHaveLength(1);
});

test('an axis holds its values between round lines', () => {
  expect(valueAxis([0.0096, 0.031])).toMatchObject({ min: 0 });
  const a = valueAxis([98, 101, null]);
  expect(a.min).toBeGreaterThan(90);
  expect(a.min).toBeLessThanOrEqual(98);
  expect(a.max).toBeGreaterThanOrEqual(101);
  expect(valueAxis([]).ticks).toEqual([0, 1]);
  expect(valueAxis([5, 5]).max).toBeGreaterThan(5);
});
