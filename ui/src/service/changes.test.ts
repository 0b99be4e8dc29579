import type { Change, ChangesResponse } from '../shared/api/schema';
import { expect, test } from 'vitest';
import { addressOf, apart, askKnownFirst, bandOf, byEvent, comparison, drawn, eventOf, ofAddress, unitOf, whenWords } from './changes';

const change = (id: string, time: number, more: Partial<Change> = {}): Change => ({
  id, time, low: time - 10, high: time + 10, service: 'shop', p: 0.01, before: { start: 0, end: 100 }, after: { start: 200, end: 300 }, measures: [], verdict: 'regression',
  sentence: '', headline: 'p95 of shop is slower', name: 'p95 slower', status: 'new', near: [], found: ['durations'], ...more,
});

test('of an event the change that leads it is drawn, while nobody decided about it', () => {
  const all = [
    change('whole', 1000), change('a', 1010, { operation: 'GET /a', under: 'whole' }), change('later', 5000, { operation: 'GET /a' }), change('done', 7000, { status: 'confirmed' }),
  ];
  expect(drawn(all).map((c) => c.id)).toEqual(['whole', 'later']);
  const beside = (service: string, ...lead: Change[]) => drawn([...lead, change('a', 1010, { under: 'whole', service })]).map((c) => c.id);
  const [dismissed, confirmed] = [change('whole', 1000, { status: 'dismissed' }), change('whole', 1000, { status: 'confirmed' })];
  expect([beside('shop'), beside('shop', dismissed), beside('cart', dismissed), beside('shop', confirmed), beside('cart', confirmed)]).toEqual([['a'], [], ['a'], [], []]);
});

test('each event is one row, which holds what changed with it', () => {
  const all = [
    change('early', 900), change('a', 990, { operation: 'GET /a', under: 'whole' }), change('whole', 1000), change('b', 1010, { under: 'whole', status: 'confirmed' }),
    change('alone', 5000, { under: 'of another service' }),
  ];
  expect(byEvent(all).map((e) => [e.lead.id, ...e.under.map((c) => c.id)])).toEqual([['early'], ['whole', 'a', 'b'], ['alone']]);
});

test('an interval that is all of the time tells nothing', () => {
  expect(bandOf(change('a', 150))).toEqual({ time: 150, low: 140, high: 160 });
  expect(bandOf(change('a', 150, { low: 0, high: 300 }))).toEqual({ time: 150, low: 150, high: 150 });
  expect(bandOf(change('a', 150, { low: 0, high: 160 }))).toEqual({ time: 150, low: 0, high: 160 });
});

test('the unit of a figure', () => {
  const part = { service: 'shop', component: 'db', operation: 'SELECT 1' };
  expect(unitOf({ part }, 'calls_per_request')).toBe('');
  expect(unitOf({ part }, 'time_per_request')).toBe('seconds');
  expect(unitOf({ family: 'heap_bytes', unit: 'bytes' }, 'mean')).toBe('bytes');
});

test('the event of a change is the one that its service is in at that moment', () => {
  const event = (time: number, ...services: string[]) => ({ time, low: time - 10, high: time + 10, changes: [], sentence: services.join(), services: services.map((service) => ({ service, called_by: [] })) });
  const r = { start: 0, end: 9000, slot: 10, searched: 9, notes: [], changes: [], events: [event(1000, 'shop'), event(1005, 'payments', 'shop'), event(1000, 'stock', 'cart'), event(5000, 'payments', 'shop')] };
  expect(eventOf(r, change('a', 1000))?.sentence).toBe('payments,shop');
  expect(eventOf(r, change('a', 3000))).toBeUndefined();
  expect(eventOf(r, change('a', 1000, { environment: 'staging' }))).toBeUndefined();
  expect(eventOf(undefined, change('a', 1000))).toBeUndefined();
});

test('a link to a change that was dated anew opens the nearest that leads', () => {
  const all = [change('early', 900), change('new', 1040), change('a', 1001, { under: 'new', operation: 'GET /a' }), change('far', 9000)];
  expect(['a@1001', 'old@1000', 'old@7900', 'old'].map((address) => ofAddress(all, address)?.id)).toEqual(['a', 'new', undefined, undefined]);
  expect(ofAddress(all, addressOf(all[3]))?.id).toBe('far');
  expect(ofAddress(all, undefined)).toBeUndefined();
});

test('when it was, in the zone of the reader', () => {
  const t = Date.UTC(2026, 10, 20, 13, 20) / 1000;
  expect(whenWords({ time: t, low: t - 60, high: t + 60 }, 'Europe/Berlin')).toBe('Fri 20 Nov 14:20:00 CET, between 14:19:00 and 14:21:00');
  expect(whenWords({ time: t, low: t, high: t }, 'UTC')).toBe('Fri 20 Nov 13:20:00 UTC');
  const midnight = Date.UTC(2026, 10, 20) / 1000;
  expect(whenWords({ time: midnight, low: midnight - 3600, high: midnight + 3600 }, 'UTC')).toBe('Fri 20 Nov 00:00:00 UTC, between Thu 19 Nov 23:00:00 and 01:00:00');
});

test('how far a mark is from a change', () => {
  expect(apart({ name: 'm', time: 1002 }, { time: 1000 })).toBe('at that moment');
  expect(apart({ name: 'm', time: 940 }, { time: 1000 })).toBe('60 s before');
  expect(apart({ name: 'm', time: 1290 }, { time: 1000 })).toBe('5 min after');
});

test('the comparison of a change', () => {
  expect(comparison(change('x', 150, { operation: 'GET /a' }))).toEqual({ filters: { service: ['shop'], operation: ['GET /a'] }, more: { a: ['0/100'], b: ['200/300'] } });
  expect(comparison(change('x', 150)).filters).toEqual({ service: ['shop'] });
  // A mark's story is compared as the mark's is, but for what the mark does not speak of.
  expect(comparison(change('x', 150, { told_by: 'm1' })).more).toEqual({ by: ['mark'], mark: ['m1'] });
  expect(comparison(change('x', 150, { told_by: 'm1' }), { tenant: ['acme'] }).more).toEqual({ a: ['0/100'], b: ['200/300'] });
  expect(comparison(change('x', 150, { environment: 'staging' }), { environment: ['staging', 'production'] }).filters).toEqual({ service: ['shop'], environment: ['staging'] });
  const shown = { tenant: ['acme'], operation: ['GET /a', 'GET /b'], kind: ['server'], status: ['error'], version: [] };
  expect(comparison(change('x', 150, { operation: 'GET /a' }), shown).filters).toEqual({ service: ['shop'], operation: ['GET /a'], tenant: ['acme'] });
});

test('all is searched anew only where what is known was found earlier', async () => {
  const asked = async (first: Partial<ChangesResponse> | undefined) => {
    const all: boolean[] = [];
    await askKnownFirst(async (known) => {
      all.push(known);
      return known ? (first as ChangesResponse | undefined) : undefined;
    });
    return all;
  };
  expect([await asked({ kept: true }), await asked({}), await asked(undefined)]).toEqual([[true, false], [true], [true]]);
});

test('what is not searched yet is asked for until it is', async () => {
  const asked = async (known: boolean, ...answers: Partial<ChangesResponse>[]) => {
    const all: boolean[] = [];
    const ask = async (known: boolean) => {
      all.push(known);
      return answers.shift() as ChangesResponse | undefined;
    };
    await askKnownFirst(ask, known, async () => {});
    return all;
  };
  const left = { unsearched: [{ start: 0, end: 1 }] };
  expect(await asked(true, left, left, {})).toEqual([true, true, true]);
  expect(await asked(true, left, { kept: true }, {})).toEqual([true, true, false]);
  expect(await asked(false, left, left, { kept: true })).toEqual([false, true, true]);
  expect(await asked(true, left)).toEqual([true, true]); // a newer question took its place
});
