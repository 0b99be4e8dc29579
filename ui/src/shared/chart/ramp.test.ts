import { describe, expect, it } from 'vitest';
import { contrast, ground, intensity, legendTicks, luminance, rampColor, type Theme } from './ramp';

describe.each<Theme>(['light', 'dark'])('the %s ramp', (theme) => {
  const steps = Array.from({ length: 65 }, (_, i) => rampColor(theme, i / 64));
  it('begins a visible step away from the ground', () => {
    expect(contrast(steps[0], ground[theme])).toBeGreaterThan(1.25);
  });
  it('goes one way: from paper to ink, or from ground to glow', () => {
    const way = theme === 'light' ? -1 : 1;
    for (let i = 1; i < steps.length; i++) expect(way * (luminance(steps[i]) - luminance(steps[i - 1]))).toBeGreaterThan(0);
  });
  it('ends far from the ground', () => {
    expect(contrast(steps[64], ground[theme])).toBeGreaterThan(11);
  });
});

it('puts one at the bottom and the largest at the top', () => {
  for (const scale of ['sqrt', 'log'] as const) {
    expect(intensity(1, 500, scale)).toBe(0);
    expect(intensity(500, 500, scale)).toBe(1);
    expect(intensity(0.5, 500, scale)).toBe(0);
    expect(intensity(20, 500, scale)).toBeGreaterThan(intensity(10, 500, scale));
  }
  expect(intensity(1, 1, 'sqrt')).toBe(1);
});

it('names legend counts that do not crowd each other', () => {
  for (const max of [1, 2, 7, 93, 5161, 1_250_000]) {
    for (const scale of ['sqrt', 'log'] as const) {
      const t = legendTicks(max, scale);
      expect(t[0]).toBe(1);
      expect(t[t.length - 1]).toBe(max);
      for (let i = 2; i < t.length; i++) expect(intensity(t[i], max, scale) - intensity(t[i - 1], max, scale)).toBeGreaterThan(0.2);
    }
  }
});
