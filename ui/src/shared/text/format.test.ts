import { describe, expect, it } from 'vitest';
import { figuresOf, type FigureCase } from './format-cases';
import { apdex, capital, count, digits, ends, errorRatio, interval, much, parseValue, percent, percentTick, quantileName, rate, rateTick, relativeError, sentenceOf, shortCount, stopped, tick, value } from './format';

describe('value', () => {
  it.each([
    [0.012, '12.0 ms'],
    [0.21, '210 ms'],
    [1.02, '1.02 s'],
    [0.000385, '385 µs'],
    [0.9996, '1.00 s'], // rounds up into the next unit, never 1000 ms
    [0.9994, '999 ms'],
    [59.97, '60.0 s'],
    [999, '999 s'],
    [1200, '20.0 min'],
    [24_900, '6.92 h'],
    [92_880, '25.8 h'],
    [260_000, '3.01 d'],
    [0, '0 s'],
    [2.5e-10, '0.250 ns'],
    [-0.004, '−4.00 ms'],
    [null, '–'],
    [NaN, '–'],
  ])('%s s is %s', (v, want) => expect(value(v)).toBe(want));

  it('knows bytes and bare numbers', () => {
    expect(value(4100, 'bytes')).toBe('4.10 kB');
    expect(value(12, 'bytes')).toBe('12 B');
    expect(value(3.14159, '')).toBe('3.14');
  });

  it('always shows three significant digits between 1 and 999', () => {
    for (let e = -8.9; e < 2.9; e += 0.037) {
      const [n] = value(10 ** e).split(' ');
      expect(n.replace('.', '').length).toBe(3);
      expect(Number(n)).toBeGreaterThanOrEqual(1);
      expect(Number(n)).toBeLessThan(1000);
    }
  });
});

// internal/figure/figure_test.go tests the program's figures with the same cases.
it('writes figures as the program does', () => {
  const write: Record<string, (v: number, unit: string) => string> = { digits, value, ratio: errorRatio, tick };
  const said = figuresOf('digits', 'value', 'ratio', 'tick').map((c) => [c, write[c.figure](c.of, c.unit)]);
  expect(said).toEqual(said.map(([c]) => [c, (c as FigureCase).text]));
});

describe('interval', () => {
  it.each([
    [0.198, 0.202, '198–202 ms'],
    [0.998, 1.02, '998 ms–1.02 s'],
    [0, 0.001, '0–1.00 ms'],
  ])('%s to %s is %s', (a, b, want) => expect(interval(a, b)).toBe(want));

  it.each([
    ['5.72 ms', '6.20 ms', '5.72 … 6.20 ms'],
    ['998 ms', '1.02 s', '998 ms … 1.02 s'],
    ['0 %', '0.04 %', '0 … 0.04 %'],
    ['12,000/s', '12,700/s', '12,000 … 12,700/s'],
    ['0.892', '0.948', '0.892 … 0.948'],
  ])('of an estimate, %s and %s', (low, high, want) => expect(ends(low, high)).toBe(want));
});

describe('percent', () => {
  it.each([
    [0.981, '98.1 %'],
    [0.01, '1.0 %'],
    [0, '0.0 %'],
    [1, '100.0 %'],
    [0.0001, '< 0.1 %'], // something is never nothing
    [0.99996, '> 99.9 %'], // nearly all is never all
    [-0.034, '−3.4 %'],
    [NaN, '–'],
  ])('%s is %s', (v, want) => expect(percent(v)).toBe(want));
});

it('shows errors with the digits they need', () => {
  expect(errorRatio(0.0012)).toBe('0.12 %');
  expect(errorRatio(0.034)).toBe('3.4 %');
  expect(errorRatio(0.00001)).toBe('< 0.01 %');
  expect(errorRatio(0)).toBe('0 %');
});

it('separates counts and shortens them where asked', () => {
  expect(count(122814)).toBe('122,814');
  expect(count(undefined)).toBe('–');
  expect(shortCount(9120)).toBe('9,120');
  expect(shortCount(12345)).toBe('12.3 k');
  expect(shortCount(999_950)).toBe('1.00 M');
});

it('shows rates', () => {
  expect(rate(1204)).toBe('1,204 req/s');
  expect(rate(4.2)).toBe('4.20 req/s');
  expect(rate(1 / 1800)).toBe('2.00 req/h');
  expect(digits(0.0123)).toBe('0.0123');
});

it('labels axes without trailing zeros', () => {
  expect(tick(0.1)).toBe('100 ms');
  expect(tick(1)).toBe('1 s');
  expect(tick(1.5)).toBe('1.5 s');
  expect(rateTick(200)).toBe('200/s');
  expect(percentTick(0.005)).toBe('0.5 %');
});

it('names quantiles and errors', () => {
  expect(quantileName('0.95')).toBe('p95');
  expect(quantileName(0.999)).toBe('p99.9');
  expect(relativeError(0.0218)).toBe('within 2.2 % of the true value');
});

describe('parseValue', () => {
  it.each([
    ['200 ms', 0.2],
    ['200', 0.2], // a bare number of a duration means milliseconds
    ['1.5s', 1.5],
    ['250µs', 0.00025],
    ['250us', 0.00025],
    ['2 min', 120],
    ['0,5 s', 0.5],
    ['', undefined],
    ['-3 ms', undefined],
    ['0', undefined],
    ['fast', undefined],
    ['5 parsecs', undefined],
  ])('%j is %s', (text, want) => expect(parseValue(text)).toBe(want));

  it('reads other units', () => {
    expect(parseValue('4 kB', 'bytes')).toBe(4000);
    expect(parseValue('4', 'bytes')).toBe(4);
    expect(parseValue('0.75', '')).toBe(0.75);
    expect(parseValue('0.75 s', '')).toBeUndefined();
  });

  it('reads back what tick writes', () => {
    for (const v of [0.0002, 0.05, 0.2, 1, 2.5, 120]) expect(parseValue(tick(v))).toBeCloseTo(v, 12);
  });
});

it('a sentence ends, and keeps its per cent signs at their numbers', () => {
  expect(sentenceOf('p99 is 38 % faster (33–42 %)')).toBe('p99 is 38\u00a0% faster (33–42\u00a0%).');
  expect(sentenceOf('about 9 min a side may do, of 20 slots, 5 ms')).toBe('about 9\u00a0min a side may do, of 20 slots, 5\u00a0ms.');
  expect(sentenceOf('Is it?')).toBe('Is it?');
  expect(sentenceOf('')).toBe('');
});

it('makes a sentence of words, and leaves p99 as it is', () => {
  expect([capital('too few'), capital('p99 of shop'), capital('')]).toEqual(['Too few', 'p99 of shop', '']);
  expect([stopped('Too few'), stopped('Too few.'), stopped('Why?'), stopped('')]).toEqual(['Too few.', 'Too few.', 'Why?', '']);
});

it('a hundredth of a whole is much, one of 276,709 is not', () => {
  expect([much(1, 276_709), much(1, 101), much(1, 100), much(0, 0), much(0, 5)]).toEqual([false, false, true, false, false]);
});

it('an Apdex below 1 never reads as 1, nor one above 0 as 0', () => {
  expect([0, 0.001, 0.854, 0.996, 1, null, undefined].map(apdex)).toEqual(['0.00', '0.01', '0.85', '0.99', '1.00', '–', '–']);
});
