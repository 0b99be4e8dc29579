// WCAG AA, checked on the style sheet itself: every text colour on every ground
// it is used on.
import { describe, expect, it } from 'vitest';
import { themeCss } from './colours';
import { contrast, ground, oklch, type RGB } from './ramp';

const css = themeCss();

function tokens(block: string): Record<string, RGB> {
  const out: Record<string, RGB> = {};
  for (const m of block.matchAll(/--([a-z-]+): oklch\(([\d.]+) ([\d.]+) ([\d.]+)\);/g)) out[m[1]] = oklch(Number(m[2]), Number(m[3]), Number(m[4]));
  return out;
}

const light = tokens(css.slice(css.indexOf(':root {'), css.indexOf('@media screen and (prefers-color-scheme: dark)')));
const darkSystem = css.slice(css.indexOf('@media screen and (prefers-color-scheme: dark)'), css.indexOf(":root[data-theme='dark']"));
const darkChosen = css.slice(css.indexOf(":root[data-theme='dark'] {"));

it('has one dark theme, whether the system or the reader chose it', () => {
  expect(tokens(darkSystem)).toEqual(tokens(darkChosen));
  expect(Object.keys(tokens(darkSystem)).sort()).toEqual(Object.keys(light).sort());
});

it('paints heatmaps on the ground of the page', () => expect(ground).toEqual({ light: light.ground, dark: tokens(darkChosen).ground }));

describe.each([['light', light], ['dark', tokens(darkChosen)]] as const)('%s', (_, t) => {
  it.each([
    ['text', 'ground'], ['text', 'raised'], ['text', 'accent-ground'], ['text', 'error-ground'],
    ['muted', 'ground'], ['muted', 'raised'], ['muted', 'error-ground'], ['muted', 'accent-ground'],
    ['accent', 'ground'], ['accent', 'raised'], ['accent', 'accent-ground'], ['on-accent', 'accent'],
    ['error', 'ground'], ['error', 'raised'], ['better', 'ground'], ['better', 'raised'], ['mean-text', 'ground'], ['mean-text', 'raised'], ['quantile', 'ground'], ['better', 'accent-ground'], ['error', 'accent-ground'], ['ground', 'mark'],
  ])('%s on %s has 4.5:1', (fore, back) => expect(contrast(t[fore], t[back])).toBeGreaterThanOrEqual(4.5));
  it.each([['line-strong', 'ground'], ['side-a', 'ground'], ['mean', 'ground'], ['warning', 'ground'], ['accent', 'ground']])('%s on %s has 3:1, for lines', (fore, back) =>
    expect(contrast(t[fore], t[back])).toBeGreaterThanOrEqual(3));
});
