// What held when, as bands under a chart over time. Pure.

import type { Check, CheckState } from '../api/schema';

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
