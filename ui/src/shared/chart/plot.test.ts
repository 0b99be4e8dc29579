import { describe, expect, it, vi } from 'vitest';

vi.mock('uplot', () => ({ default: class {} }));
const { joined, stepAt, stepByKey } = await import('./plot');

const key = (k: string, o = {}) => ({ key: k, shiftKey: false, metaKey: false, ctrlKey: false, altKey: false, ...o });

describe('stepAt', () => {
  it.each([[100, 0], [109.9, 0], [110, 1], [129.9, 2], [130, -1], [99, -1], [null, -1]])('%s is in step %s', (t, want) => {
    expect(stepAt(t, [100, 110, 120], 10)).toBe(want);
  });
  it('has no step without data', () => expect(stepAt(5, [], 10)).toBe(-1));
});

describe('stepByKey', () => {
  it.each([
    ['ArrowLeft', 5, 4], ['ArrowRight', 5, 6], ['ArrowLeft', -1, 19], ['ArrowRight', -1, 0], ['ArrowLeft', 0, 0], ['ArrowRight', 19, 19],
    ['Home', 7, 0], ['End', 7, 19], ['Escape', 7, null], ['Escape', -1, undefined], ['x', 7, undefined],
  ])('%s from %s leads to %s', (k, at, want) => expect(stepByKey(key(k), at, 20)).toBe(want));
  it('goes by ten with Shift', () => {
    expect(stepByKey(key('ArrowLeft', { shiftKey: true }), 15, 20)).toBe(5);
    expect(stepByKey(key('ArrowRight', { shiftKey: true }), 15, 20)).toBe(19);
  });
  it('leaves the browser its keys', () => expect(stepByKey(key('ArrowLeft', { altKey: true }), 5, 20)).toBeUndefined());
  it('does nothing without steps', () => expect(stepByKey(key('End'), -1, 0)).toBeUndefined());
});

it('curves with points of their own stand on one list of places', () => {
  expect(joined([[[1, 10], [3, null], [5, 50]], [[0, 1], [3, 2]]])).toEqual({ xs: [0, 1, 3, 5], values: [[undefined, 10, null, 50], [1, undefined, 2, undefined]] });
  expect(joined([])).toEqual({ xs: [], values: [] });
});
