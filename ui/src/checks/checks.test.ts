import { describe, expect, it } from 'vitest';
import { amount, axisOf, backtestOf, changedKeys, checkCommand, checkCsv, checkPromql, draftOf, draftYaml, edited, figures, foundText, isExpression, labelsOf, lasting, limitText, must, notes, onSteps, partOf, placeOf, seen, stateAt, stepOf, troubles, yamlText } from './checks';
import type { CheckBacktestResponse, CheckBands, CheckPoint, CheckReceiver, CheckState } from '../shared/api/schema';
import { figuresOf, type FigureCase } from '../shared/text/format-cases';
import { decode, encode, home } from '../shared/page/url';

const none: CheckBands = { threshold: null, low_critical: null, low_warning: null, high_warning: null, high_critical: null };
const high: CheckBands = { ...none, threshold: 0.21, high_warning: 0.231, high_critical: 0.252 };
const point = (time: number, value: number | null, bands: CheckBands = none): CheckPoint => ({ time, value, min: value, max: value, bands });

it('says a value with its unit', () => {
  expect([[0.412, 's'], [0.0021, 'seconds'], [2048, 'bytes'], [12, '%'], [1204, 'orders'], [0.0123, ''], [null, 's'], [3, undefined], [-3.25, '°C'], [-0.5, 's'], [0.02682, 'ratio'], [0, 'ratio']].map(([v, u]) => amount(v as number, u as string)))
    .toEqual(['412 ms', '2.10 ms', '2.05 kB', '12 %', '1,204 orders', '0.0123', '–', '3', '−3.25 °C', '−500 ms', '2.7 %', '0 %']);
});

it('says what was seen beyond the value', () => {
  const c = { level: 'OK', value: 0.1, unit: 's' } as const;
  expect(['0.1368 s', '136.8 ms', '4e-08 s', '0.17', '3 of 4 disks', '200 OK, 1082 bytes in 583µs', ''].map((text) => seen({ ...c, text }))).toEqual(['', '', '', '', '3 of 4 disks', '200 OK, 1082 bytes in 583µs', '']);
  expect(seen({ level: 'OK', value: 0.027, unit: 'ratio', text: '2.7 %' })).toBe('');
  expect([['412 ms', 'seconds'], ['412 ms', 'second'], ['2.05 kB', 'bytes'], ['−500 ms', 's'], ['80.4 G', ''], ['80.4 G/s', '/s']].map(([text, unit]) => seen({ ...c, unit, text }))).toEqual(['', '', '', '', '', '']);
  expect(seen({ level: 'OK', value: 1204, unit: 'orders', text: '1,204 orders' })).toBe('');
  expect(seen({ level: 'OK', value: 12, unit: '', text: '12 users' })).toBe('12 users');
  expect(seen({ ...c, level: 'WARNING', text: '0.1 s' })).toBe('0.1 s');
  expect(seen({ ...c, value: null, text: 'has not run yet' })).toBe('has not run yet');
});

it('says values and lengths of time as the program does', () => {
  const said = figuresOf('quantity', 'span').map((c) => [c, c.figure === 'span' ? lasting(c.of) : amount(c.of, c.unit)]);
  expect(said).toEqual(said.map(([c]) => [c, (c as FigureCase).text]));
});

it('has steps of whole slots', () => {
  expect([900, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400].map((s) => stepOf({ start: 0, end: s }, 300))).toEqual([10, 120, 300, 2400, 8400]);
});

it('says what a value must be, on which side', () => {
  expect(must(high, 's')).toBe('≤ 210 ms');
  expect(must({ ...none, threshold: 0, high_warning: 0.01 }, 'ratio'), 'a check at its bound is OK').toBe('≤ 0 %');
  expect(must({ ...none, threshold: 14, low_critical: 7 }, 'days')).toBe('≥ 14 days');
  expect(must({ ...none, threshold: 5, low_warning: 4, high_warning: 6 }, '')).toBe('≈ 5');
  expect(limitText({ ...none, low_warning: 4, high_warning: 6, high_critical: 8 }, '').replaceAll('\u00a0', ' ')).toBe('warning outside 4 to 6, critical > 8');
  expect(amount(80.4e9)).toBe('80.4 G');
  expect(must(none, 's')).toBe('');
  expect(limitText(high, 's').replaceAll('\u00a0', ' ')).toBe('warning > 231 ms, critical > 252 ms');
  expect(limitText({ ...none, low_warning: 14, low_critical: 7 }, 'days')).toMatch(/^warning.<.14.days, critical.<.7.days$/);
});

it('says how long in one unit', () => {
  expect([0, 42.4, 89, 3599, 7200, 100_000, 400_000, -3].map(lasting)).toEqual(['0 s', '42 s', '89 s', '60 min', '2 h', '27.8 h', '4.6 d', '0 s']);
  expect(lasting(null)).toBe('–');
});

it('says what the state alone does not', () => {
  expect(notes({ state: 'OK', level: 'OK', soft: false, flapping: false })).toEqual([]);
  expect(notes({ state: 'OK', level: 'CRITICAL', soft: true, flapping: true, quiet: 'maintenance backup' })).toEqual(['soft: now CRITICAL, not for long enough', 'flapping: no notification of its changes until it is steady', 'no notifications: maintenance backup']);
  expect(notes({ state: 'OK', level: 'OK', soft: false, flapping: true, quiet: 'flapping' })).toHaveLength(1);
});

it('names receivers that do not work, and what was lost', () => {
  const r: CheckReceiver = { name: 'mail', kind: 'email', to: 'mail:587', state: 'idle', next: null, delivered: 4, failed: 0, spooled: 0, dropped: {} };
  expect(troubles([r, { ...r, state: 'delivering', spooled: 2 }], 100)).toEqual([]);
  expect(troubles([{ ...r, state: 'waiting', error: 'connection refused', next: 131, spooled: 3 }], 100)).toEqual(['mail (email, mail:587) does not work: connection refused; 3 wait on disk; tried again in 31 s.']);
  expect(troubles([{ ...r, dropped: { age: 2, full: 0 } }], 100)).toEqual(['mail (email, mail:587) 2 dropped (too old).']);
  expect(troubles(undefined, 0)).toEqual([]);
});

describe('over time', () => {
  const states: CheckState[] = [{ start: 0, end: 50, state: 'OK', soft: false }, { start: 50, end: null, state: 'CRITICAL', soft: false, why: 'x' }];
  it('knows what held at a moment', () => {
    expect([0, 49, 50, 1e9].map((t) => stateAt(states, t)?.state)).toEqual(['OK', 'OK', 'CRITICAL', 'CRITICAL']);
  });
  it('puts points on steps, with holes where there are none', () => {
    const g = onSteps([point(20, 1), point(40, 3), point(999, 9)], 10, 60, 20);
    expect(g.times).toEqual([0, 20, 40]);
    expect(g.at.map((p) => p?.value)).toEqual([undefined, 1, 3]);
  });
  it('has an axis that holds values and near bands, and no far ones', () => {
    const [lo, top] = axisOf([point(0, 0.1, high), undefined]);
    expect(lo).toBe(0);
    expect(top).toBeGreaterThan(0.252);
    const far = axisOf([point(0, 1, { ...none, high_critical: 1e6 }), point(1, 2)]);
    expect(far[1]).toBeLessThan(3);
    // Far from zero it begins near the values.
    expect(axisOf([point(0, 1000), point(1, 1010)])[0]).toBeGreaterThan(900);
    expect(axisOf([])).toEqual([0, 1]);
    const flat = axisOf([point(0, 5)]);
    expect(flat[1]).toBeGreaterThan(flat[0]);
    expect(axisOf([point(0, 0)])[1]).toBeGreaterThan(0);
  });
});

it('finds the part of a source by bytes', () => {
  const source = 'avg({check="größe"}[0:9]) + 1';
  const at = new TextEncoder().encode('avg(').length;
  expect(partOf(source, at, '{check="größe"}[0:9]')).toEqual(['avg(', '{check="größe"}[0:9]', ') + 1']);
  const after = new TextEncoder().encode('avg({check="größe"}[0:9]) + ').length;
  expect(partOf(source, after, '1')).toEqual(['avg({check="größe"}[0:9]) + ', '1', '']);
  expect(partOf('x', 50, 'y')).toEqual(['x', '', '']);
});

it('finds where a message says that the mistake is', () => {
  expect(placeOf('avg(x[-24])', 'column 6: a time needs a unit; write -24M')).toBe(5);
  expect(placeOf('a +\nb )', 'line 2, column 3: unexpected )')).toBe(6);
  expect(placeOf('𝛼 )', 'column 3: unexpected )')).toBe(3);
  expect(placeOf('a', 'column 99: more is expected')).toBe(1);
  expect(placeOf('a', 'no such check')).toBeUndefined();
});

describe('a draft', () => {
  const is = draftOf({ expression: 'p99(x[-5M:-0M])', threshold: { must: '<', of: 'avg(y[-1H:END])', warning: '10%', critical: '20%' }, rules: { bad: '3 of 5', good: '1 of 1' } });
  const range = { start: 100, end: 200 };
  it('is the check, and what the address changes of it', () => {
    expect(changedKeys(is, edited(is, {}))).toEqual([]);
    const d = edited(is, { warn: ['30%'], bad: ['2 of 2'], tab: ['edit'] });
    expect(changedKeys(is, d)).toEqual(['warn', 'bad']);
    const v = { ...home(), page: 'check' as const, name: 'a{op="GET /x"}', more: { tab: ['edit'], warn: ['30%'], of: ['avg(x[4 weeks]) * 2'] } };
    const a = new URL(encode(v), 'http://h');
    expect(decode(a.pathname, a.search)).toEqual(v);
    expect(decode('/checks', '').page).toBe('checks');
  });
  it('asks only for what differs', () => {
    expect(backtestOf('c', is, is, range)).toEqual({ check: 'c', ...range });
    expect(backtestOf('c', is, edited(is, { warn: ['30%'] }), range)).toEqual({ check: 'c', ...range, threshold: { must: '<', of: 'avg(y[-1H:END])', warning: '30%', critical: '20%' } });
    expect(backtestOf('c', is, edited(is, { good: ['2 of 2'], expr: [' p95(x[0]) '] }), range)).toEqual({ check: 'c', ...range, value: 'p95(x[0])', states: { bad: '3 of 5', good: '2 of 2' } });
    expect(backtestOf('c', is, edited(is, { crit: [''] }), range).threshold).toEqual({ must: '<', of: 'avg(y[-1H:END])', warning: '10%' });
  });
  it('tells expressions from numbers and profiles', () => {
    expect(['avg(x[0])', '1 + 1', '0.5', ' 12 ', 'profile usual', '', 'profiles[0]'].map(isExpression)).toEqual([true, true, false, false, false, false, true]);
  });
  it('is written as a file has it', () => {
    expect(draftYaml('shop p99', is, edited(is, { of: ["avg({check=\"it's\"}[0])\n + 1"] }))).toBe('checks:\n  shop p99:\n    threshold:\n      must: "<"\n      of: \'avg({check="it\'\'s"}[0]) + 1\'\n      warning: 10%\n      critical: 20%\n    soft: 3 of 5\n    recover: 1 of 1\n');
    expect(draftYaml('x', is, edited(is, { expr: ['p95(z[0])'], of: [''] }))).toBe("checks:\n  x:\n    value: 'p95(z[0])'\n    soft: 3 of 5\n    recover: 1 of 1\n");
    expect(['profile usual', 'true', 'a: b', '{x}', "it's", '1.5', '-3', '3 of 5', '# no'].map(yamlText)).toEqual(['profile usual', "'true'", "'a: b'", "'{x}'", '"it\'s"', '1.5', '-3', '3 of 5', "'# no'"]);
  });
});

it('puts figures beside those of the check as it is, and right and wrong only where incidents are marked', () => {
  const r: CheckBacktestResponse = { start: 0, end: 1, runs: 5, nulls: 0, no_threshold: 0, every: 10, step: 60, points: [], states: [], alarms: [{ start: 1, end: 2, worst: 'WARNING', value: 1 }], incidents: [], found: 0, missed: 0, false: 1, per_week: 0.25, bad_seconds: 3600, before: { alarms: 7, found: 0, missed: 0, false: 7, per_week: 1.75, bad_seconds: 90, opened: [], bands: [] } };
  expect(figures(r)).toEqual([{ name: 'Alarms', is: '1', was: '7' }, { name: 'Alarms per week', is: '0.250', was: '1.75' }, { name: 'Time not OK', is: '60 min', was: '90 s' }]);
  const marked: CheckBacktestResponse = { ...r, before: undefined, incidents: [{ id: 'm', kind: 'marked', start: 0, since: 0, end: 1, value: null, text: '', found: false, after: null }] };
  expect(figures(marked).map((f) => [f.name, f.was])).toContainEqual(['Marked incidents missed', undefined]);
  expect([{ found: false, after: null }, { found: true, after: 180 }, { found: true, after: -60 }, { found: true, after: null }].map(foundText)).toEqual(['missed', 'found after 3 min', 'found 60 s before it began', 'found']);
});

it('copies a command, PromQL and CSV', () => {
  expect(checkCommand(['show', 'errors{operation="GET /a"}'], 'http://127.0.0.1:7099')).toBe(`tailscope check show 'errors{operation="GET /a"}'`);
  expect(checkCommand(['show', 'a'], 'http://h:1')).toBe('tailscope check show a --server http://h:1');
  expect(labelsOf({ name: 'errors', labels: { team: 'shop', check: 'errors' } })).toEqual({ check: ['errors'], team: ['shop'] });
  expect(checkPromql({ name: 'errors', labels: { operation: 'GET "/a"', team: 'shop', check: 'errors' } })).toBe('check_value{operation="GET \\"/a\\"",check="errors",team="shop"}');
  expect(checkCsv([point(0, 1.5, high)])).toBe('time,value,min,max,threshold,low_critical,low_warning,high_warning,high_critical\n1970-01-01T00:00:00.000Z,1.5,1.5,1.5,0.21,,,0.231,0.252\n');
});
