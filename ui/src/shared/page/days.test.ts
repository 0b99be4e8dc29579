import { describe, expect, it } from 'vitest';
import { dayName, onSteps } from './days';

describe('values of an earlier day', () => {
  it('stay as they are on the same steps', () => {
    expect(onSteps([1, null, 3], { start: 0, step: 60 }, { start: 0, step: 60, n: 3 })).toEqual([1, null, 3]);
    expect(onSteps([1, 2, 3], { start: 0, step: 60 }, { start: 0, step: 60, n: 2 })).toEqual([1, 2]);
  });
  it('of longer steps fill what they cover', () => {
    expect(onSteps([1, null, 3], { start: 0, step: 120 }, { start: 60, step: 60, n: 6 })).toEqual([1, null, null, 3, 3, null]);
  });
  it('of shorter steps are averaged', () => {
    expect(onSteps([1, 3, null, 5], { start: 0, step: 30 }, { start: 0, step: 60, n: 3 })).toEqual([2, 5, null]);
  });
  it('are none without an answer', () => {
    expect(onSteps(undefined, { start: 0, step: 60 }, { start: 0, step: 60, n: 2 })).toEqual([]);
  });
});

it('a day is named as the server names it', () => {
  expect(dayName('week', undefined)).toBe('last week');
  expect(dayName('week', { overlay: { name: 'week', of: 'Fri 13 Nov', zone: 'UTC' } } as never)).toBe('Fri 13 Nov');
});
