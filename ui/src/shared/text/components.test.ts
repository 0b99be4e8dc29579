// The colours of components can be told apart: with normal vision and with any
// of the three dichromacies, side by side and in any pair, on both grounds.
import { describe, expect, it } from 'vitest';
import { byComponent, componentNames, componentToken } from './components';
import { contrast, oklch, type RGB } from '../chart/ramp';
import { themeCss } from '../chart/colours';

const css = themeCss();
const dark = css.indexOf(":root[data-theme='dark'] {");

function token(name: string, from: number): RGB {
  const m = new RegExp(`${name}: oklch\\(([\\d.]+) ([\\d.]+) ([\\d.]+)\\);`).exec(css.slice(from));
  if (!m) throw new Error(`app.css has no ${name}`);
  return oklch(Number(m[1]), Number(m[2]), Number(m[3]));
}

const linear = (v: number) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
const clip = (v: number) => Math.min(1, Math.max(0, v));

// Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
const visions: Record<string, number[][]> = {
  normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

/** OKLab of a colour as seen with a vision; distances in it are those of the eye. */
function seen(c: RGB, vision: number[][]): number[] {
  const rgb = c.map(linear);
  const [r, g, b] = vision.map((row) => clip(row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

describe.each([['light', 0], ['dark', dark]] as const)('%s', (_, from) => {
  const names = [...Object.keys(componentNames), 'something else'];
  const colours = names.map((n) => token(componentToken(n), from));
  it.each(Object.entries(visions))('differ with %s', (name, vision) => {
    const least = name === 'normal' ? 0.12 : 0.08;
    for (let i = 0; i < names.length; i++) {
      for (let k = 0; k < i; k++) {
        const [a, b] = [seen(colours[i], vision), seen(colours[k], vision)];
        const distance = Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
        expect(distance, `${names[i]} and ${names[k]}`).toBeGreaterThan(least);
      }
    }
  });
  it('have 3:1 on the ground', () => {
    const ground = token('--ground', from);
    names.forEach((n, i) => expect(contrast(colours[i], ground), n).toBeGreaterThanOrEqual(3));
  });
});

it('stand in the order of the stack', () => {
  expect(['zz', 'queue', 'db', 'aa', 'app'].sort(byComponent)).toEqual(['app', 'db', 'queue', 'aa', 'zz']);
});
