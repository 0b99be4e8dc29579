// What held when, as bands under a chart over time. Pure.

import type { Check, CheckState, Incident } from '../api/schema';
import type { Heat } from './heat';

/** The worst first, as the server orders them. */
export const states: Check['state'][] = ['CRITICAL', 'UNKNOWN', 'WARNING', 'OK', 'PENDING'];

/** States within a range, in order; what lasts ends at the range's end, or now if that is earlier. */
export function strip(of: CheckState[] | undefined, start: number, end: number, now = end): Held[] {
  return (of ?? []).flatMap((s) => {
    const a = Math.max(start, s.start ?? start);
    const b = Math.min(end, s.end ?? Math.min(end, now));
    return b > a ? [{ ...s, start: a, end: b }] : [];
  }).sort((p, q) => p.start - q.start);
}

type Held = CheckState & { start: number; end: number };

/** What an incident went through: of one that flapped as the server has it, else from its events; its worst state where it has none. */
export function statesOf(i: Incident): CheckState[] {
  if (i.states?.length) return i.states;
  const changes = (i.events ?? []).filter((e) => e.kind === 'opened' || e.kind === 'changed').filter((e, n, all) => e.to !== all[n - 1]?.to);
  if (!changes.length) return [{ start: i.start, end: i.end, state: i.worst || 'UNKNOWN', soft: false, why: i.text }];
  return changes.map((e, n) => ({ start: e.time, end: changes[n + 1]?.time ?? i.end, state: e.to, soft: false, why: e.text }));
}

/** States of which many would share a pixel: those within one become the worst of them. */
export function merged(held: Held[], pixel: number): Held[] {
  const out: Held[] = [];
  for (const s of held) {
    const last = out[out.length - 1];
    if (!last || s.end - last.start >= pixel) out.push({ ...s });
    else {
      last.end = s.end;
      if (states.indexOf(s.state) < states.indexOf(last.state)) Object.assign(last, { state: s.state, soft: s.soft, why: s.why });
    }
  }
  return out;
}

/** The stretches of a heatmap in which nothing was measured, by their first column and the one after their last. Columns that are still open may fill. */
export function gapsOf(h: Pick<Heat, 'columnCount' | 'whole'>): [number, number][] {
  const out: [number, number][] = [];
  for (let c = 0; c < h.whole; c++) {
    if (h.columnCount[c]) continue;
    const last = out[out.length - 1];
    if (last?.[1] === c) last[1]++;
    else out.push([c, c + 1]);
  }
  return out;
}
