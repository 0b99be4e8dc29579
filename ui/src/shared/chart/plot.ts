// What plots with axes share: the frame of a uPlot, whose plot over time lines up
// with the heatmap's, the drag that zooms, the cursor that several charts share,
// and its keys.

import uPlot from 'uplot';
import type { Num } from '../api/types';
import { token } from './tokens';

export interface Frame {
  start: number;
  end: number;
  step: number; // seconds a value
  width: number;
  height: number;
  left: number; // width of the value axis
  right?: number; // room beside the plot, for names
  top?: number; // room above it; default 6
  ticks: { t: number; text: string }[];
  showTimes: boolean;
  /** Of an axis of numbers: logarithmic, or falling from left to right. */
  log?: boolean;
  turned?: boolean;
  /** Without lines at its ticks, where they are names. */
  bare?: boolean;
}

export interface FrameOptions {
  /** As it is now: read again at each drawing. */
  frame: () => Frame;
  tick: (v: number) => string;
  /** The least distance of two ticks of the value axis. */
  space: number;
  range: uPlot.Range.Function;
  /** A log axis, with its lines at these values. */
  log?: (min: number, max: number) => number[];
  /** The lines of a linear axis at these values. */
  splits?: () => number[];
  /** The cursor goes from value to value, and marks them. */
  snap?: boolean;
  /** The cursor is where place puts it, not where the pointer is. */
  led?: boolean;
  bands?: uPlot.Band[];
  zoom?: (start: number, end: number) => void;
  series: uPlot.Series[];
  ready: (u: uPlot) => void;
  draw?: (u: uPlot) => void;
}

/** The options of a plot in its frame; series are those beside the time. */
export function framed({ frame, tick, space, range, log, splits, snap, led, bands, zoom, series, ready, draw }: FrameOptions): uPlot.Options {
  const { width, height, left, right = 0, top = 6, showTimes, ...across } = frame();
  const axis = {
    stroke: token('--muted'), font: '12px "Inter Variable", system-ui, sans-serif', grid: { stroke: token('--grid'), width: 1 }, ticks: { show: false },
  };
  const name = (u: uPlot, t: number) => {
    const f = frame();
    const px = u.valToPos(t, 'x');
    return px > f.width - left - 16 || px < 14 - left ? '' : (f.ticks.find((k) => k.t === t)?.text ?? '');
  };
  return {
    width,
    height,
    padding: [top, right, 0, 0],
    legend: { show: false },
    cursor: { y: false, ...(snap ? { move: snapped, points: { size: 6, width: 0, fill: strokeOf } } : { points: { show: false } }), drag: { x: !!zoom, y: false, setScale: false }, focus: { prox: -1 }, ...(led ? { bind: unbound } : {}) },
    scales: { x: { time: false, auto: false, range: () => [frame().start, frame().end], distr: across.log ? 3 : 1, dir: across.turned ? -1 : 1 }, y: { range, distr: log ? 3 : 1 } },
    axes: [
      { ...axis, grid: { ...axis.grid, show: !across.bare }, size: showTimes ? 26 : 4, gap: 6, splits: () => frame().ticks.map((t) => t.t), filter: (_u, ts) => ts, values: (u, ts) => ts.map((t) => (showTimes ? name(u, t) : '')) },
      { ...axis, show: left > 0, size: left, gap: 8, space: (_u, _i, _min, _max, pixels) => Math.min(space, pixels / 2.6), values: (_u, vs) => vs.map(tick), ...(splits ? { splits } : {}), ...(log ? { splits: (_u: uPlot, _i: number, min: number, max: number) => log(min, max), filter: (_u: uPlot, vs: number[]) => vs } : {}) },
    ],
    series: [{}, ...series],
    bands,
    hooks: { ready: [ready], setSelect: [(u) => selected(u, frame().step, zoom)], draw: draw ? [draw] : [] },
  };
}

// Nothing of what uPlot does by the pointer.
const unbound: uPlot.Cursor.Bind = Object.fromEntries(['mousedown', 'mouseup', 'mousemove', 'mouseenter', 'mouseleave', 'click', 'dblclick'].map((event) => [event, () => null]));

const strokeOf = (u: uPlot, i: number): string => {
  const s = u.series[i].stroke;
  return String(typeof s === 'function' ? s(u, i) : s);
};

// The place of the value that is next to the pointer.
function snapped(u: uPlot, left: number, top: number): [number, number] {
  const t = left < 0 ? undefined : u.data[0][u.posToIdx(left)];
  return t === undefined ? [left, top] : [u.valToPos(t, 'x'), top];
}

// What was dragged over, widened to whole steps.
function selected(u: uPlot, step: number, zoom?: (start: number, end: number) => void): void {
  if (u.select.width < 5) return;
  const a = u.posToVal(u.select.left, 'x');
  const b = u.posToVal(u.select.left + u.select.width, 'x');
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoom?.(Math.floor(a / step) * step, Math.ceil(b / step) * step);
}

/** Curves with points of their own on one list of places; where one has none there is undefined, which a line passes over. */
export function joined(curves: [number, Num][][]): { xs: number[]; values: (Num | undefined)[][] } {
  const xs = [...new Set(curves.flatMap((c) => c.map(([x]) => x)))].sort((a, b) => a - b);
  return { xs, values: curves.map((c) => {
    const own = new Map(c);
    return xs.map((x) => own.get(x));
  }) };
}

/** Draws a line from top to bottom at each of these moments that is in sight. */
export function uprights(u: uPlot, times: number[], strokes: (readonly [colour: string, width: number])[]): void {
  for (const t of times) {
    const x = Math.round(u.valToPos(t, 'x', true)) + 0.5;
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width + 1) continue;
    for (const [colour, width] of strokes) {
      u.ctx.strokeStyle = colour;
      u.ctx.lineWidth = width * devicePixelRatio;
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
  }
}

/** A plot that is there from one build to the next, and the pointer over it. */
export class Plot {
  of: uPlot | undefined;
  /** Under the pointer uPlot's own cursor is the exact one. */
  inside = false;

  /** Makes the plot, empty; its data are set after. Returns what takes it away. */
  build(options: uPlot.Options, host: HTMLElement): () => void {
    const p = new uPlot(options, options.series.map(() => []) as unknown as uPlot.AlignedData, host);
    this.of = p;
    return () => {
      this.of = undefined;
      p.destroy();
    };
  }

  set(data: uPlot.AlignedData, { width, height, start, end }: Pick<Frame, 'width' | 'height' | 'start' | 'end'>): void {
    const p = this.of;
    if (!p) return;
    if (p.width !== width || p.height !== height) p.setSize({ width, height });
    p.setData(data);
    p.setScale('x', { min: start, max: end });
  }

  /** The moment the pointer is at; null beside the plot. */
  move(e: PointerEvent): number | null {
    if (!this.of) return null;
    const r = this.of.over.getBoundingClientRect();
    const px = e.clientX - r.left;
    this.inside = px >= 0 && px <= r.width;
    return this.inside ? this.of.posToVal(px, 'x') : null;
  }

  /** Puts the cursor where another chart, or a key, has it. */
  place(cursor: number | null, { start, end }: Pick<Frame, 'start' | 'end'>, p = this.of): void {
    if (!p) return;
    if (cursor == null || cursor < start || cursor > end) p.setCursor({ left: -10, top: -10 });
    else if (!this.inside) p.setCursor({ left: p.valToPos(cursor, 'x'), top: 0 });
  }
}

/** The step that holds the moment; −1 outside. */
export function stepAt(cursor: number | null, times: number[], step: number): number {
  if (cursor == null || !times.length) return -1;
  const i = Math.floor((cursor - times[0]) / step);
  return i >= 0 && i < times.length ? i : -1;
}

/** Which of n steps a key leads to from one, −1 for none; undefined if it is not a key of the cursor, null if it lets go of it. */
export function stepByKey(e: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'metaKey' | 'ctrlKey' | 'altKey'>, at: number, n: number): number | null | undefined {
  if (e.metaKey || e.ctrlKey || e.altKey || !n) return undefined;
  const by = e.shiftKey ? 10 : 1;
  const to: Record<string, number> = { ArrowLeft: (at < 0 ? n : at) - by, ArrowRight: at < 0 ? 0 : at + by, Home: 0, End: n - 1 };
  if (e.key === 'Escape') return at < 0 ? undefined : null;
  return e.key in to ? Math.max(0, Math.min(n - 1, to[e.key])) : undefined;
}
