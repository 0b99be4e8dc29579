// Axes of small charts.

import type { Num } from '../api/types';

/** An axis from zero for bars: its end, a round number above all of them, and one or two lines. */
export function barScale(values: (Num | undefined)[]): { max: number; ticks: number[] } {
  const top = Math.max(0, ...values.filter((v): v is number => v != null && Number.isFinite(v)));
  if (!(top > 0)) return { max: 1, ticks: [0] };
  const size = 10 ** Math.floor(Math.log10(top));
  const max = [1, 2, 4, 6, 8, 10].map((k) => k * size).find((m) => m >= top * 0.999999) ?? 10 * size;
  return { max: Number(max.toPrecision(6)), ticks: [0, Number((max / 2).toPrecision(6)), Number(max.toPrecision(6))] };
}

/** An SVG path through the values, interrupted where there is none; a value that stands alone is a dot as wide as lone. */
export function linePath(values: (Num | undefined)[], x: (i: number) => number, y: (v: number) => number, lone = 0.01): string {
  return values
    .map((v, i) => {
      if (v == null) return '';
      const first = values[i - 1] == null;
      return `${first ? 'M' : 'L'}${x(i).toFixed(1)} ${y(v).toFixed(1)}${first && values[i + 1] == null ? `h${lone}` : ''}`;
    })
    .join('');
}
