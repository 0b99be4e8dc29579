// Kept requests and the waterfall of one trace. Pure shaping; the page draws it.

import type { TraceGroup, TracePart, TraceResponse, TraceRow, TraceSpan } from '../shared/api/schema';

/** The indices of each span's children; the last entry holds the roots. */
export function childrenOf(spans: TraceSpan[]): number[][] {
  const out: number[][] = Array.from({ length: spans.length + 1 }, () => []);
  spans.forEach((s, i) => out[s.parent >= 0 && s.parent < spans.length && s.parent !== i ? s.parent : spans.length].push(i));
  return out;
}

export interface Row {
  index: number;
  level: number; // of indentation, from 0
  children: number;
  below: number; // descendants
  open: boolean;
  position: number; // among its siblings, from 1
  siblings: number;
}

/** How many descendants each span has. */
export function descendants(children: number[][]): number[] {
  const n = children.length - 1;
  const out = new Array<number>(n).fill(0);
  const stack = [...children[n]];
  const order: number[] = [];
  while (stack.length) {
    const i = stack.pop() as number;
    order.push(i);
    for (const c of children[i]) stack.push(c);
  }
  for (let k = order.length - 1; k >= 0; k--) for (const c of children[order[k]]) out[order[k]] += out[c] + 1;
  return out;
}

/** The rows to draw: depth first, without what lies below a closed span; only the subtree of top if there is one. */
export function rowsOf(children: number[][], below: number[], closed: ReadonlySet<number>, top: number | null): Row[] {
  const n = children.length - 1;
  const out: Row[] = [];
  const firsts = top != null ? [top] : children[n];
  const stack: { list: number[]; at: number; level: number }[] = [{ list: firsts, at: 0, level: 0 }];
  while (stack.length) {
    const s = stack[stack.length - 1];
    if (s.at >= s.list.length) {
      stack.pop();
      continue;
    }
    const i = s.list[s.at++];
    const open = children[i].length > 0 && !closed.has(i);
    out.push({ index: i, level: s.level, children: children[i].length, below: below[i], open, position: s.at, siblings: s.list.length });
    if (open) stack.push({ list: children[i], at: 0, level: s.level + 1 });
  }
  return out;
}

/** What to close at first, so that a trace of thousands opens readable: the fullest of the deeper levels. */
export function closedAtFirst(spans: TraceSpan[], children: number[][], below: number[], most = 400): Set<number> {
  const closed = new Set<number>();
  if (spans.length <= most) return closed;
  // By levels from the top: as deep as fits.
  let level = children[spans.length];
  let shown = level.length;
  while (level.length) {
    const next: number[] = [];
    for (const i of level) {
      if (!children[i].length) continue;
      if (shown + children[i].length > most) closed.add(i);
      else {
        shown += children[i].length;
        next.push(...children[i]);
      }
    }
    level = next;
  }
  for (const i of [...closed]) if (!below[i]) closed.delete(i);
  return closed;
}

/** Where a span works itself: its time without that of its children, as [start, end] pairs. */
export function ownStretches(spans: TraceSpan[], children: number[][], i: number): [number, number][] {
  const s = spans[i];
  const end = s.start + s.duration;
  const busy = children[i]
    .map((c): [number, number] => [Math.max(s.start, spans[c].start), Math.min(end, spans[c].start + spans[c].duration)])
    .filter(([a, b]) => b > a)
    .sort((a, b) => a[0] - b[0]);
  const out: [number, number][] = [];
  let at = s.start;
  for (const [a, b] of busy) {
    if (a > at) out.push([at, a]);
    at = Math.max(at, b);
  }
  if (end > at) out.push([at, end]);
  return out;
}

/**
 * Stretches as shares of a window, what is out of it left off. What one pixel
 * cannot tell apart is joined; where there are more than pixels, a pixel is drawn
 * if most of it is covered, so that a span of ten thousand children is neither
 * slow to draw nor drawn as if it had none.
 */
export function onScreen(stretches: [number, number][], from: number, to: number, resolution = 1 / 1500): { left: number; width: number }[] {
  const span = to - from;
  if (!(span > 0)) return [];
  const out: { left: number; width: number }[] = [];
  const push = (x0: number, x1: number, gap: number) => {
    const last = out[out.length - 1];
    if (last && x0 - (last.left + last.width) < gap) last.width = Math.max(last.width, x1 - last.left);
    else out.push({ left: x0, width: x1 - x0 });
  };
  const shares: [number, number][] = [];
  for (const [a, b] of stretches) {
    const x0 = Math.max(0, (a - from) / span);
    const x1 = Math.min(1, (b - from) / span);
    if (x1 >= x0) shares.push([x0, x1]);
  }
  if (shares.length <= 200) {
    for (const [x0, x1] of shares) push(x0, x1, resolution);
    return out;
  }
  const n = Math.round(1 / resolution);
  const covered = new Float64Array(n);
  for (const [x0, x1] of shares) {
    for (let k = Math.floor(x0 * n); k < n && k / n < x1; k++) covered[k] += Math.min(x1, (k + 1) / n) - Math.max(x0, k / n);
  }
  for (let k = 0; k < n; k++) if (covered[k] * n >= 0.5) push(k / n, (k + 1) / n, resolution / 2);
  return out;
}

export function pathStretches(path: number[] | undefined | null): [number, number][] {
  const out: [number, number][] = [];
  for (let i = 0; i + 1 < (path?.length ?? 0); i += 2) out.push([path![i], path![i + 1]]);
  return out;
}

/** From where to where the picture goes: all spans, and the queue before the first. */
export function extent(t: TraceResponse): { from: number; to: number } {
  let from = 0;
  let to = Math.max(t.duration, 0);
  for (const s of t.spans) {
    from = Math.min(from, s.start - (s.queue ?? 0));
    to = Math.max(to, s.start + s.duration);
  }
  return to > from ? { from, to } : { from, to: from + 1e-6 };
}

/** A span is slow where the time went: this share of the trace, or more, spent in itself. */
export const slowShare = 0.2;

export function slowSpans(spans: TraceSpan[], duration: number): Set<number> {
  const out = new Set<number>();
  if (!(duration > 0)) return out;
  spans.forEach((s, i) => {
    if (s.self / duration >= slowShare) out.add(i);
  });
  return out;
}

/** Round numbers for an axis from 0 on, at most `most` of them. */
export function durationTicks(from: number, to: number, most: number): number[] {
  const span = to - from;
  if (!(span > 0) || most < 1) return [];
  const raw = span / most;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => s >= raw * 0.999999) ?? size * 10;
  const out: number[] = [];
  for (let k = Math.ceil(from / step); k * step <= to + step * 1e-9; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}

/** What the clock did, in words: "clock 3.2 ms ahead, moved". A span of a clock that is ahead was moved back. */
export function skewWords(shifted: number, show: (v: number) => string): string {
  return `clock ${show(Math.abs(shifted))} ${shifted < 0 ? 'ahead' : 'behind'}, moved`;
}

/** {trace_id} filled in; only http addresses are links. */
export function traceLink(template: string | undefined, id: string): string | undefined {
  const s = template?.replaceAll('{trace_id}', encodeURIComponent(id));
  return s && /^https?:\/\//.test(s) ? s : undefined;
}

const reasons: Record<string, string> = { slow: 'slowest', failed: 'failed', exemplar: 'exemplar' };

export function whyWords(why: string[] | undefined): string {
  return (why ?? []).map((w) => reasons[w] ?? w).join(', ');
}

/** How long the request itself took: what its spans' own times sum to. What goes on after it is not part of it. */
export function requestSeconds(t: TraceResponse): number {
  return t.spans.find((s) => s.parent < 0)?.duration ?? t.duration;
}

/** The name of a part of a request of a service, as the command line writes it. */
export function partName(service: string, p: TracePart): string {
  return p.itself ? 'itself' : p.service !== service ? `${p.service}: ${p.operation}` : p.operation;
}

/** The key of a group, and of the requests that are in it; empty for one of which the longest part is not known. */
export const groupKey = (x: TraceGroup | TraceRow): string => (x.longest ? `${x.operation} > ${x.longest.service}: ${x.longest.operation} (${x.longest.component})` : '');
