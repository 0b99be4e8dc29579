import { expect, test } from 'vitest';
import { changeWords, parseAmplify, parseShare, shareText } from './session';

test('what may be typed for a share and for copies', () => {
  expect([parseShare('25'), parseShare('12.5 %'), parseShare('0,5%'), parseShare('100'), parseShare('0')]).toEqual([0.25, 0.125, 0.005, 1, 0]);
  expect([parseShare('101'), parseShare('-1'), parseShare(''), parseShare('half')]).toEqual([undefined, undefined, undefined, undefined]);
  expect([shareText(0.25), shareText(1), shareText(0.0001), shareText(null)]).toEqual(['25 %', '100 %', '0.01 %', '–']);
  expect([parseAmplify('× 2'), parseAmplify('1.5'), parseAmplify('0'), parseAmplify('x3')]).toEqual([2, 1.5, 0, 3]);
  expect([parseAmplify('-1'), parseAmplify(''), parseAmplify('two')]).toEqual([undefined, undefined, undefined]);
});

test('wishes in words', () => {
  expect(changeWords({ number: 3, share: 0.5, paused: true, shadows: { b: { using: 1, amplify: 2 } } })).toBe('pause, share 50 %, b: 1 server, b: × 2');
  expect(changeWords(undefined)).toBe('');
});
