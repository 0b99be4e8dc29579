// A two-hue ramp with grey at zero for differences: blue where requests went
// missing, orange where they came to be. Blue and orange are told apart with any
// colour vision, and both ends are equally far from the grey in lightness.

import { oklch, type RGB, type Theme } from '../shared/chart/ramp';

/** The colour for t in [-1, 1]. */
export function divergeColor(theme: Theme, t: number): RGB {
  const s = Math.min(1, Math.abs(t));
  const hue = t < 0 ? 258 : 52;
  const chroma = 0.15 * Math.sin((Math.PI / 2) * Math.min(1, s * 1.15));
  if (theme === 'light') return oklch(0.925 - 0.5 * s, s === 0 ? 0.002 : chroma, hue);
  return oklch(0.3 + 0.52 * s, s === 0 ? 0.006 : chroma, hue);
}

/** Where on the ramp a difference lies: the square root of its share of the largest, with its sign. */
export function divergence(d: number, max: number): number {
  if (!(max > 0)) return 0;
  return Math.sign(d) * Math.sqrt(Math.min(1, Math.abs(d) / max));
}
