// One-hue ramps, even in OKLCH lightness, so that equal steps of the scale look
// equal: from paper to ink on a light page, from ground to glow on a dark one.
// The first colour is a clear step away from the ground: a count of one shows,
// and nothing is never the ramp's first colour.

import { ground as groundOf, type Colour } from './colours';

export type Theme = 'light' | 'dark';

export type RGB = [number, number, number];

/** OKLCH to sRGB bytes (Björn Ottosson's matrices), clipped to the gamut. */
export function oklch(l: number, c: number, hueDegrees: number): RGB {
  const h = (hueDegrees * Math.PI) / 180;
  const a = c * Math.cos(h);
  const b = c * Math.sin(h);
  const l1 = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m1 = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s1 = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l1 - 3.3077115913 * m1 + 0.2309699292 * s1,
    -1.2684380046 * l1 + 2.6097574011 * m1 - 0.3413193965 * s1,
    -0.0041960863 * l1 - 0.7034186147 * m1 + 1.707614701 * s1,
  ];
  return linear.map((x) => {
    const y = x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
    return Math.round(Math.min(1, Math.max(0, y)) * 255);
  }) as RGB;
}

/** WCAG relative luminance of sRGB bytes. */
export function luminance([r, g, b]: RGB): number {
  const f = (v: number) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
}

export function contrast(a: RGB, b: RGB): number {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

const rgb = ([l, c, h]: Colour): RGB => oklch(l, c, h);

/** The page's ground under the data. */
export const ground: Record<Theme, RGB> = { light: rgb(groundOf[0]), dark: rgb(groundOf[1]) };

export const rampSize = 256;

/** The ramp's colour for t in [0, 1]. */
export function rampColor(theme: Theme, t: number): RGB {
  // Chroma rises and falls inside the gamut; lightness is a straight line.
  if (theme === 'light') return oklch(0.905 - 0.665 * t, 0.04 + 0.13 * Math.sin(Math.PI * Math.min(1, 0.12 + 0.78 * t)), 264);
  return oklch(0.33 + 0.64 * t, 0.06 + 0.1 * Math.sin(Math.PI * (0.1 + 0.82 * t)) - 0.03 * t, 258);
}

/** The ramp as little-endian RGBA words for an ImageData. */
export function rampWords(theme: Theme): Uint32Array {
  const out = new Uint32Array(rampSize);
  for (let i = 0; i < rampSize; i++) out[i] = word(rampColor(theme, i / (rampSize - 1)));
  return out;
}

export function word([r, g, b]: RGB): number {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function css([r, g, b]: RGB): string {
  return `rgb(${r} ${g} ${b})`;
}

export type CountScale = 'sqrt' | 'log';

/** Where on the ramp a count lies, in [0, 1]: 1 is at the bottom, max at the top. */
export function intensity(n: number, max: number, scale: CountScale): number {
  if (max <= 1) return n >= max ? 1 : 0;
  const t = scale === 'log' ? Math.log(n) / Math.log(max) : (Math.sqrt(n) - 1) / (Math.sqrt(max) - 1);
  return Math.min(1, Math.max(0, t));
}

/** The counts a legend names: 1, some round ones, and the largest. */
export function legendTicks(largest: number, scale: CountScale): number[] {
  const max = Math.round(largest);
  if (max <= 1) return [1];
  const out = [1];
  for (let p = 1; p <= max; p *= 10) {
    for (const m of [1, 2, 5]) out.push(p * m);
  }
  out.push(max);
  // Keep those that do not crowd the ones before or the last one.
  const kept: number[] = [];
  for (const n of out.filter((n, i) => n <= max && out.indexOf(n) === i)) {
    const t = intensity(n, max, scale);
    const crowded = kept.length > 0 && t - intensity(kept[kept.length - 1], max, scale) < 0.24;
    const crowdsLast = n !== max && 1 - t < 0.24;
    if (n === 1 || n === max || (!crowded && !crowdsLast)) kept.push(n);
  }
  return kept;
}
