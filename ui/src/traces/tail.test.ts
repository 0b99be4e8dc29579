import { describe, expect, it } from 'vitest';
import type { Band, BreakdownPart, FanOut, PartIn } from '../shared/api/schema';
import { partKey } from './stack';
import { bandName, bandOf, bars, calls, differences, instances, sentence } from './tail';

const inside = (seconds: number, calls = 1, critical = seconds): PartIn => ({ seconds, critical, share: 0, calls });

function part(operation: string, component: string, band?: PartIn, typical?: PartIn): BreakdownPart {
  return {
    service: 's', component, operation, seconds: 1, share: 0, critical_share: 0, calls: 1, per_request: 1, requests: 1, repeated: 0, n_plus_one: false,
    mean: 0, error: 0, band, typical,
  };
}

const band: Band = {
  low: 0.061, high: null, above: 0.95, requests: 1204, mean: 0.24, typical: { high: 0.0081, requests: 12040, mean: 0.009 },
  components: [
    { component: 'queue', band: inside(0.02), typical: inside(0.001) },
    { component: 'db', band: inside(0.2, 12, 0.15), typical: inside(0.004) },
    { component: 'app', band: inside(0.04, 1, 0.09), typical: inside(0.005) },
    { component: 'cache', band: inside(0), typical: inside(0) },
  ],
};
const parts = [
  part('GET /cart', 'app', inside(0.04, 1, 0.09), inside(0.005)),
  part('SELECT orders', 'db', inside(0.2, 12, 0.15), inside(0.004)),
  part('', 'queue', inside(0.02), inside(0.001)),
  part('only typical', 'db', undefined, inside(0.001)),
  part('neither', 'db'),
];

describe('bandOf', () => {
  it.each<[Record<string, string[]>, unknown]>([
    [{}, { above: 0.95 }],
    [{ above: ['0.99'] }, { above: 0.99 }],
    [{ above: ['7'] }, { above: 0.95 }],
    [{ low: ['0.2'] }, { low: 0.2, high: null }],
    [{ low: ['0.2'], high: ['0.3'], above: ['0.99'] }, { low: 0.2, high: 0.3 }],
    [{ high: ['0.3'] }, { low: null, high: 0.3 }],
    [{ low: ['0.3'], high: ['0.2'] }, { above: 0.95 }],
    [{ low: ['x'], high: ['-1'] }, { above: 0.95 }],
  ])('%j', (more, want) => expect(bandOf(more)).toEqual(want));
});

it('names bands', () => {
  expect(bandName({ above: 0.999 })).toBe('above p99.9');
  expect(bandName({ low: 0.198, high: 0.202 })).toBe('198–202 ms');
  expect(bandName({ low: 0.2, high: null })).toBe('slower than 200 ms');
  expect(bandName({ low: null, high: 0.2 })).toBe('up to 200 ms');
});

describe('bars', () => {
  it('stand in the order of components on one scale, queue before', () => {
    const b = bars(band, 'self');
    expect(b.band.segments.map((s) => [s.component, s.seconds])).toEqual([['app', 0.04], ['db', 0.2]]);
    expect(b.band.before).toBe(0.02);
    expect(b.typical.total).toBeCloseTo(0.009, 12);
    expect(b.span).toBeCloseTo(0.02 + 0.24, 12);
  });
  it('are split by part, and what is left of each component', () => {
    const b = bars(band, 'self', [parts[0], part('SELECT orders', 'db', inside(0.15, 12), inside(0.004))]);
    expect(b.band.segments.map((s) => [s.name, s.seconds, s.nth, s.of])).toEqual([['GET /cart', 0.04, 0, 2], ['SELECT orders', 0.15, 0, 2], ['other database', expect.closeTo(0.05), 1, 2]]);
    expect(b.typical.segments.map((s) => s.name)).toEqual(['GET /cart', 'SELECT orders']);
    expect(b.span).toBeCloseTo(bars(band, 'self').span);
  });
  it('follow the critical path when asked', () => expect(bars(band, 'critical').band.segments.map((s) => s.seconds)).toEqual([0.09, 0.15]));
});

describe('differences', () => {
  it('come largest first, those that vanished too', () => {
    const d = differences(parts, band, 'self');
    expect(d.map((x) => x.part.operation)).toEqual(['SELECT orders', 'GET /cart', '', 'only typical']);
    expect(d[0].difference).toBeCloseTo(0.196, 12);
    expect(d[0].share).toBeCloseTo(0.196 / 0.231, 9);
    expect(d[2].share).toBeNaN(); // queue is not part of the duration
    expect(d[3].difference).toBe(-0.001);
    expect([d[0].typicalCalls, d[0].bandCalls]).toEqual([1, 12]);
  });
});

describe('sentence', () => {
  const d = differences(parts, band, 'self');
  it('says which, how much more, and what makes it so', () => {
    expect(sentence(band, { above: 0.95 }, d)).toBe(
      '1,204 requests slower than 61.0 ms, above p95, took 240 ms on average, 231 ms more than the typical 9.00 ms. 84.8 % of the difference is SELECT orders (database, called 12 times instead of once).',
    );
    expect(sentence(band, { low: 0.198, high: 0.25 }, d)).toMatch(/^1,204 requests of 198–250 ms took/);
    expect(sentence(band, { low: 0.198, high: null }, d)).toMatch(/^1,204 requests slower than 198 ms took/);
  });
  it('says when there is none, and when it is no slower', () => {
    expect(sentence({ ...band, requests: 0 }, { above: 0.99 }, [])).toBe('No request is above p99 in this range.');
    expect(sentence({ ...band, mean: 0.008 }, { low: null, high: 0.01 }, [])).toMatch(/no longer than the typical 9.00 ms.$/);
  });
});

it('shows calls per request', () => {
  expect([0, 0.01, 0.52, 1, 12.44, 340.2, null].map(calls)).toEqual(['0.0', '< 0.1', '0.5', '1.0', '12.4', '340', '–']);
});

describe('instances', () => {
  const fan = (list: [number, number][]): FanOut => {
    const all = list.reduce((s, [, l]) => s + l, 0);
    return { service: 's', component: 'db', operation: 'o', instances: list.map(([calls, last], i) => ({ instance: `i${i}`, calls, last, share: last / all, band_share: null })) };
  };
  it('calls one a straggler that chance does not explain', () => {
    const i = instances(fan([[1000, 600], [1000, 200], [1000, 200]]));
    expect(i.map((x) => x.straggler)).toEqual([true, false, false]);
    expect(i[0].even).toBeCloseTo(1 / 3, 12);
  });
  it('does not by a few calls, by a little, or where one is simply called more', () => {
    expect(instances(fan([[6, 4], [6, 2]])).some((x) => x.straggler)).toBe(false);
    expect(instances(fan([[1e5, 53000], [1e5, 47000]])).some((x) => x.straggler)).toBe(false);
    expect(instances(fan([[3000, 3000], [1000, 1000]])).some((x) => x.straggler)).toBe(false);
    expect(instances(fan([[1000, 1000]])).some((x) => x.straggler)).toBe(false);
  });
});

it('parts of one operation at two systems are two', () => {
  const part = { service: 'shop', component: 'db', operation: 'get x' };
  expect(new Set([partKey(part), partKey({ ...part, system: 'riak' }), partKey({ ...part, system: 'mysql' })]).size).toBe(3);
});
