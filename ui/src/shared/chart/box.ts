// A rectangle of the heatmap: a stretch of time and a band of values.

export interface Box {
  start: number; // inclusive
  end: number; // exclusive
  low: number; // exclusive
  high: number | null; // inclusive; null: no bound
}

/** As the address has it: start-end-low-high, an open end left out. */
export function encodeBox(b: Box): string {
  const digits = (x: number) => String(Number(x.toPrecision(5)));
  return [b.start, b.end, digits(b.low), b.high == null ? '' : digits(b.high)].join('_');
}

/** The reverse; null when it is none. */
export function decodeBox(s: string | undefined): Box | null {
  const p = s?.split('_');
  if (p?.length !== 4) return null;
  const [start, end, low, high] = p.map((x) => (x === '' ? NaN : Number(x)));
  if (!(start > 0 && end > start && low >= 0) || !(p[3] === '' || high > low)) return null;
  return { start, end, low, high: p[3] === '' ? null : high };
}

/** What a drag in the picture means: too short for anything, a zoom in time, or a rectangle. */
export type Drag = 'none' | 'zoom' | 'box';

export interface Travel {
  dx: number; // CSS px, either sign
  dy: number;
}

/** Fewer pixels are a click. */
const click = 5;
/** A hand that draws a line sideways strays by less. */
const stray = 24;

/**
 * Decides by shape: a drag that is mostly sideways zooms, one as tall as three
 * rows and more than a third as tall as it is wide draws a rectangle. drawing
 * (Shift, or the button) always does; where there are no boxes, nothing does.
 */
export function dragMeans(t: Travel, o: { rowPx: number; drawing: boolean; boxes: boolean }): Drag {
  const [w, h] = [Math.abs(t.dx), Math.abs(t.dy)];
  if (o.boxes && o.drawing) return w >= click || h >= click ? 'box' : 'none';
  if (o.boxes && h >= Math.max(3 * o.rowPx, stray) && 3 * h >= w) return 'box';
  return w >= click ? 'zoom' : 'none';
}

/** Whether a rectangle touches a range of time. */
export const within = (b: Box, r: { start: number; end: number }) => b.end > r.start && b.start < r.end;
