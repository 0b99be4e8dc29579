import { expect, it } from 'vitest';
import { decodeBox, encodeBox } from './box';

it.each([
  { start: 1795150000, end: 1795150600, low: 0.2, high: 0.4 },
  { start: 1795150000, end: 1795150060, low: 0, high: null },
])('%j survives the address', (b) => expect(decodeBox(encodeBox(b))).toEqual(b));

it.each([undefined, '', '1_2_3', '5_4_0.1_0.2', '1_2_0.2_0.1', 'a_b_c_d', '1_2_-1_'])('%s is none', (s) => expect(decodeBox(s)).toBeNull());
