import { describe, expect, it } from 'vitest';
import { ago, fittingRange, lone, parseSpan, presets, readersTimes, resolve, shortSlotName, slotName, spanCode, spanName, timeTicks, zoneName } from './time';

const noon = Date.UTC(2026, 10, 20, 12, 0, 0) / 1000; // a Friday

it('names slots with their zone, and seconds only where they matter', () => {
  expect(slotName(noon, noon + 60, 'Europe/Berlin')).toBe('Fri 20 Nov 13:00–13:01 CET');
  expect(slotName(noon, noon + 10, 'UTC')).toBe('Fri 20 Nov 12:00:00–12:00:10 UTC');
  expect(readersTimes('"a" at 2026-11-20 12:00 UTC, "b" at 2026-11-20 12:00:30 UTC', 'Europe/Berlin')).toBe('"a" at Fri 20 Nov 13:00 CET, "b" at Fri 20 Nov 13:00:30 CET');
  expect(readersTimes('at 2026-11-20 12:00:30 UTC, between 11:59:30 and 12:01:30', 'Europe/Berlin')).toBe('at Fri 20 Nov 13:00:30 CET, between 12:59:30 and 13:01:30');
  expect(readersTimes('the next look is at 23:46:06 UTC, or at 05:46 UTC', 'Europe/Berlin', noon)).toBe('the next look is at 00:46:06 CET, or at 06:46 CET');
  expect(readersTimes('at 2026-11-20 12:00 UTC, or at 12:46 UTC', 'UTC', noon)).toBe('at Fri 20 Nov 12:00 UTC, or at 12:46 UTC');
  expect(shortSlotName(noon, noon + 10, 'UTC')).toBe('20 Nov 12:00–12:00');
  expect(shortSlotName(noon - 28 * 86400, noon, 'Europe/Berlin')).toBe('23 Oct 14:00 – 20 Nov 13:00');
  expect(slotName(noon - 28 * 86400, noon, 'Europe/Berlin')).toBe('Fri 23 Oct 14:00 CEST – Fri 20 Nov 13:00 CET');
  expect(slotName(noon, noon + 86400, 'UTC')).toBe('Fri 20 Nov 12:00 – Sat 21 Nov 12:00 UTC');
  expect(zoneName(noon, 'Asia/Kolkata')).toBe('GMT+5:30');
});

it('names spans', () => {
  expect([210, 3590, 3625].map(spanName)).toEqual(['3 min 30 s', '59 min 50 s', '1 h']);
  expect([10, 90, 600, 3600, 86400, 604800, 5400].map(spanName)).toEqual(['10 s', '90 s', '10 min', '1 h', '24 h', '7 d', '90 min']);
});

it('reads and writes spans in addresses', () => {
  for (const p of presets) expect(parseSpan(spanCode(p.seconds))).toBe(p.seconds);
  expect(parseSpan('90s')).toBe(90);
  for (const bad of ['', '6', 'h', '-1h', '0m', '9999d', '1.5h']) expect(parseSpan(bad)).toBeUndefined();
});

it('ends relative ranges on a whole slot', () => {
  expect(resolve({ last: 1800 }, noon + 7.3)).toEqual({ start: noon - 1800, end: noon });
  expect(resolve({ last: 900 }, noon + 7.3)).toEqual({ start: noon + 7 - 900, end: noon + 7 });
  expect(resolve({ start: 5, end: 7 }, noon)).toEqual({ start: 5, end: 7 });
});

describe('timeTicks', () => {
  it('fall on whole hours of the reader’s clock, with days at midnight', () => {
    const t = timeTicks(noon, noon + 86400, 8, 'Asia/Kolkata');
    expect(t.map((x) => x.text)).toEqual(['18:00', '21:00', '21 Nov', '03:00', '06:00', '09:00', '12:00', '15:00']);
    expect(t.filter((x) => x.major)).toHaveLength(1);
  });
  it('survive a change of the clock', () => {
    // Berlin goes from CEST to CET on 25 October 2026 at 01:00 UTC.
    const start = Date.UTC(2026, 9, 24, 22) / 1000;
    const t = timeTicks(start, start + 24 * 3600, 8, 'Europe/Berlin');
expect(t.map((x) => x.text)).toEqual(['25 Oct', '03:00', '06:00', '09:00', '12:00', '15:00', '18:00', '21:00']);
  });
  it('are never more than asked for, give or take the ends', () => {
    for (const p of presets) {
      for (const most of [2, 5, 12]) {
        const t = timeTicks(noon, noon + p.seconds, most, 'UTC');
        expect(t.length).toBeLessThanOrEqual(most + 1);
      }
    }
  });
});

it('fits an unchosen range to a young system', () => {
  expect(fittingRange(noon - 90, noon, 6 * 3600)).toBe(300);
  expect(fittingRange(noon - 1800, noon, 6 * 3600)).toBe(3600);
  expect(fittingRange(noon - 5 * 3600, noon, 6 * 3600)).toBeUndefined();
  expect(fittingRange(noon - 280, noon, 300)).toBeUndefined();
});

describe('lone', () => {
  it.each<[(number | null | undefined)[], number[] | null]>([
    [[], null],
    [[1, undefined, 2, null, 3, undefined], [4]],
    [[1], [0]],
    [[1, 2], null],
    [[null, 0, null, null, 3, 4, null, 5], [1, 7]],
  ])('of %j is %j', (values, want) => expect(lone(values)).toEqual(want));
});

it('says how long ago', () => {
  expect([10, 100, 3000, 7200, 200000].map((s) => ago(1e6 - s, 1e6))).toEqual(['now', '2 min ago', '50 min ago', '2 h ago', '2 d ago']);
  expect(ago(1e6 + 300, 1e6)).toBe('in 5 min');
});
