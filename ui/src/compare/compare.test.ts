import { describe, expect, it } from 'vitest';
import { firstMark, firstValues, firstWindows, halvesOf, moreOfSides, questionOf, quickWindows, sideLabels, sidesOf, swapped, watchable, windowOf, type Sides } from './compare';

const now = 1_700_000_005;
const floor = 1_700_000_000;
const last = { last: 6 * 3600 };
const sides = (o: Partial<Sides>): Sides => ({ ...sidesOf({}), ...o });

describe('the address', () => {
  it.each<Partial<Sides>>([
    { a: 'now-2h/now-1h', b: 'now-1h/now' },
    { a: '100/200', b: '200/300', family: 'process_cpu_seconds', per: 'request', within: '0.02', level: '0.99' },
    { by: 'mark', mark: '5fd4', settle: '30s', window: '30m' },
    { by: 'label', label: 'version', a: '1.0', b: '1.1' },
    { by: 'nights', a: 'daily 22:00-06:00 last 5 before now-7d', b: 'mon-fri 22:00-06:00 last 5', tz: 'Europe/Berlin', allow: 'worse:3%,p99=increase:5%' },
    { by: 'days', b: '100/200', days: 6, like: 'workday', tz: 'Europe/Berlin' },
  ])('comes back: %o', (o) => {
    expect(sidesOf(moreOfSides(sides(o)))).toEqual(sides(o));
  });
  it('keeps what belongs to the way of choosing, and how it is shown', () => {
    expect(moreOfSides(sides({ by: 'mark', mark: 'x', a: '1/2', label: 'version' }), { watch: ['1'], box: ['z'] })).toEqual({ by: ['mark'], mark: ['x'], watch: ['1'] });
    expect(moreOfSides(sides({ by: 'days', b: '1/2', days: 4, like: 'weekday', tz: 'UTC' }))).toEqual({ by: ['days'], b: ['1/2'], tz: ['UTC'] });
  });
  it('takes a mark alone for its two sides', () => {
    expect(sidesOf({ mark: ['x'] })).toEqual(sides({ by: 'mark', mark: 'x' }));
    expect(sidesOf({ mark: ['x'], a: ['1/2'], b: ['2/3'] }).by).toBe('windows');
  });
  it('takes nonsense for its defaults', () => expect(sidesOf({ by: ['x'], days: ['-3'], like: ['y'] })).toEqual(sides({})));
});

describe('where nobody chose sides', () => {
  const mark = (id: string, time: number) => ({ id, time, name: id });
  it('begins with the latest mark that has a time after it', () => {
    expect(firstMark([mark('old', now - 8 * 86400), mark('a', now - 900), mark('b', now - 300), mark('fresh', now - 290), mark('coming', now + 60)], now)?.id).toBe('b');
    expect(firstMark([mark('old', now - 8 * 86400)], now)).toBeUndefined();
  });
  it('halves the time that has requests, on whole slots', () => {
    const times = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => floor - 480 + 60 * i);
    expect(halvesOf([0, null, 5, 1, 0, 4, 2, 0], times, 60, now)).toEqual({ a: `${floor - 360}/${floor - 210}`, b: `${floor - 210}/${floor - 60}` });
    expect(halvesOf([0, 0, 5, 1, 0], times.slice(0, 5), 60, now)).toBeUndefined();
    expect(halvesOf([], [], 10, now)).toBeUndefined();
  });
});

describe('windows', () => {
  it.each([
    ['now-2h/now-1h', { start: floor - 7200, end: floor - 3600 }], ['now-90m/now', { start: floor - 5400, end: floor }], ['100/250.5', { start: 100, end: 250.5 }],
    ['200/100', undefined], ['100', undefined], ['', undefined], ['now-2x/now', undefined],
  ])('%s', (text, want) => expect(windowOf(text, now)).toEqual(want));
  it('begins with this hour, or with the range that was chosen', () => {
    expect(firstWindows(last, last)).toEqual({ a: 'now-2h/now-1h', b: 'now-1h/now' });
    expect(firstWindows({ last: 900 }, last)).toEqual({ a: 'now-30m/now-15m', b: 'now-15m/now' });
    expect(firstWindows({ start: 1000, end: 1600 }, last)).toEqual({ a: '400/1000', b: '1000/1600' });
  });
  it('knows what people mean by today', () => {
    const midnight = (t: number, back: number) => Math.floor(t / 86400) * 86400 - back * 86400;
    const today = Math.floor(now / 86400) * 86400;
    const [, yesterday, week] = quickWindows(now, midnight);
    expect(yesterday).toMatchObject({ a: `${today - 86400}/${today}`, b: `${today}/${today + 86400}` });
    expect(week.a).toBe(`${today - 7 * 86400}/${today - 6 * 86400}`);
  });
});

describe('questionOf', () => {
  const ask = (o: Partial<Sides>, range: { last: number } | { start: number; end: number } = last) => questionOf(sides(o), '{service="shop"}', range, now);
  it('makes relative windows absolute', () =>
    expect(ask({ a: 'now-2h/now-1h', b: 'now-1h/now' })).toMatchObject({ params: { match: '{service="shop"}', a: `${floor - 7200}/${floor - 3600}`, b: `${floor - 3600}/${floor}` } }));
  it('asks for a mark alone', () => expect(ask({ by: 'mark', mark: 'x', window: '30m', a: '1/2' })).toEqual({ params: { family: '', per: '', match: '{service="shop"}', level: '', within: '', mark: 'x', settle: '', window: '30m' } }));
  it('asks for values over the range', () => expect(ask({ by: 'label', label: 'version', a: '1.0', b: '1.1' }, { start: 5, end: 9 })).toMatchObject({ params: { start: 5, end: 9, label: 'version', a: '1.0', b: '1.1' } }));
  it('asks for earlier days in the zone', () => expect(ask({ by: 'days', b: '100/200', days: 4, like: 'weekday', tz: 'UTC' })).toMatchObject({ params: { b: '100/200', days: 4, like: 'weekday', tz: 'UTC' } }));
  it('asks for nights as they are written, and for what is allowed', () =>
    expect(ask({ by: 'nights', a: 'daily 22:00-06:00 last 5 before now-7d', b: 'daily 22:00-06:00 last 5', tz: 'UTC', allow: 'worse:3%' })).toMatchObject({ params: { a: 'daily 22:00-06:00 last 5 before now-7d', b: 'daily 22:00-06:00 last 5', tz: 'UTC', allow: 'worse:3%' } }));
  it.each<[Partial<Sides>, string]>([
    [{ by: 'nights', b: 'daily 22:00-06:00 last 5' }, 'a'], [{ by: 'nights', a: 'daily 22:00-06:00 last 5' }, 'b'],
    [{ a: 'x', b: '1/2' }, 'a'], [{ a: '1/2', b: '' }, 'b'], [{ a: '100/200', b: '150/300' }, 'b'], [{ by: 'mark' }, 'mark'], [{ by: 'label' }, 'label'],
    [{ by: 'label', label: 'version' }, 'a'], [{ by: 'label', label: 'version', a: '1', b: '1' }, 'b'], [{ by: 'days' }, 'b'],
  ])('is not ready with %o', (o, field) => expect(ask(o)).toMatchObject({ unready: { field } }));
});

it('swaps what can be swapped', () => {
  expect(swapped(sides({ a: '1/2', b: '3/4' }), undefined)).toMatchObject({ a: '3/4', b: '1/2' });
  expect(swapped(sides({ by: 'mark', mark: 'x' }), { a: { start: 1, end: 2 }, b: { start: 3, end: 4 } })).toMatchObject({ by: 'windows', a: '3/4', b: '1/2' });
  expect(swapped(sides({ by: 'days', b: '1/2' }), undefined)).toBeUndefined();
});

it('watches what still grows', () => {
  expect(watchable(sides({ a: 'now-2h/now-1h', b: 'now-1h/now' }), last, now, undefined)).toBe(true);
  expect(watchable(sides({ a: '1/2', b: '3/4' }), last, now, undefined)).toBe(false);
  expect(watchable(sides({ a: '1/2', b: `${now - 100}/${now + 100}` }), last, now, undefined)).toBe(true);
  expect(watchable(sides({ by: 'mark', mark: 'x' }), last, now, now - 600)).toBe(true);
  expect(watchable(sides({ by: 'mark', mark: 'x', window: '5m' }), last, now, now - 600)).toBe(false);
  expect(watchable(sides({ by: 'nights', b: 'daily 22:00-06:00 last 5' }), last, now, undefined)).toBe(false);
  expect(watchable(sides({ by: 'label' }), { start: 1, end: 2 }, now, undefined)).toBe(false);
});

it('offers labels and values in the order people ask for them', () => {
  expect(sideLabels(['tenant', 'component', 'service', 'version', 'kind'])).toEqual(['version', 'tenant', 'component']);
  expect(firstValues([{ value: '1.10', count: 9 }, { value: '', count: 5 }, { value: '1.9', count: 4 }, { value: '1.1', count: 1 }])).toEqual({ a: '1.9', b: '1.10' });
  expect(firstValues([{ value: 'only', count: 1 }])).toBeUndefined();
});
