// Lines that stand for nothing but themselves, such as the values of a label: hues
// apart, and a dash each for whoever cannot tell them.

import type { Theme } from './ramp';

const hues = [264, 47, 350, 150, 90, 205, 310, 20];
const dashes: (number[] | undefined)[] = [undefined, [7, 4], [2, 3], [10, 3, 2, 3], undefined, [7, 4], [2, 3], [10, 3, 2, 3]];

export const lineColour = (i: number, theme: Theme, opacity = 1): string => `oklch(${theme === 'dark' ? 0.76 : 0.52} 0.15 ${hues[i % hues.length]}${opacity < 1 ? ` / ${opacity}` : ''})`;

export const lineDash = (i: number): number[] | undefined => dashes[i % dashes.length];
