// What a plot shows at values of its axes besides lines.

import type { Num } from '../api/types';

interface Look {
  /** A token; default the colour of text. */
  colour?: string;
  opacity?: number;
  /** What it is, for what looks for it. */
  name?: string;
  /** What it says when it is pointed at. */
  title?: string;
}

/** A stretch of one axis, all along the other; an end that is not known is that of the plot. */
export interface Area extends Look {
  is: 'area';
  x?: readonly [Num | undefined, Num | undefined];
  y?: readonly [Num | undefined, Num | undefined];
  /** So many pixels wide, around its middle. */
  wide?: number;
  /** With an outline of dashes. */
  outlined?: boolean;
}

/** A line across the whole plot. */
export interface Rule extends Look {
  is: 'rule';
  x?: number;
  y?: number;
  dash?: string;
  width?: number;
}

export interface Dot extends Look {
  is: 'dot';
  x: number;
  y: number;
  size?: number; // its radius in pixels
  form?: 'hollow' | 'cross' | 'bar'; // a bar is a short line across
  /** Brought out. */
  on?: boolean;
}

/** An interval at a place of the other axis; an end that is not known is that of the plot, without a cap. */
export interface Interval extends Look {
  is: 'interval';
  x?: number;
  y?: number;
  low: Num;
  high: Num;
  caps?: number; // half their length, in pixels
  width?: number;
}

export interface Words extends Look {
  is: 'words';
  text: string;
  /** At a value, or at an edge of the plot. */
  x: number | 'left' | 'right';
  y: number | 'top' | 'bottom';
  dx?: number; // pixels
  dy?: number;
  anchor?: 'start' | 'middle' | 'end';
  bold?: boolean;
}

export type Shape = Area | Rule | Dot | Interval | Words;

/** Shapes in the order in which they are drawn, and what is not one. */
export type Shapes = (Shape | false | null | undefined)[];

/** What stands one above another, moved down until none lies on the one before. */
export function apart<T extends { y: number }>(of: T[], least: number): T[] {
  const out = [...of].sort((a, b) => a.y - b.y);
  for (let i = 1; i < out.length; i++) out[i] = { ...out[i], y: Math.max(out[i].y, out[i - 1].y + least) };
  return out;
}
