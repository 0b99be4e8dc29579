// What is asked of a session: numbers as a reader types them, and a change in words.

import type { MirrorChange } from '../shared/api/schema';
import type { Num } from '../shared/api/types';

/** A share as a reader types it: 25, 25 %, 0.5%; undefined if it is none from 0 to 100 %. */
export function parseShare(text: string): number | undefined {
  const m = /^\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*%?\s*$/.exec(text);
  const n = m ? Number(m[1].replace(',', '.')) / 100 : NaN;
  return n >= 0 && n <= 1 ? Number(n.toPrecision(12)) : undefined;
}

/** A share in per cent without needless digits: 100 %, 12.5 %, 0.01 %. */
export const shareText = (share: Num | undefined): string => (share == null ? '–' : `${Number((share * 100).toPrecision(4))} %`);

/** How many copies of each request: 0 and above; 2, 1.5, × 3. */
export function parseAmplify(text: string): number | undefined {
  const m = /^\s*[×x]?\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*$/i.exec(text);
  const n = m ? Number(m[1].replace(',', '.')) : NaN;
  return Number.isFinite(n) && n <= 1e6 ? n : undefined;
}

/** What of a change is of a target; an empty one if nothing is. */
export const wantedOf = (c: MirrorChange | undefined, shadow: string): { using?: number; amplify?: Num } => c?.shadows?.[shadow] ?? {};

/** The change in words: share 50 %, pause, candidate: 3 servers. */
export function changeWords(c: MirrorChange | undefined): string {
  if (!c) return '';
  const out: string[] = [];
  if (c.stop) out.push('stop');
  if (c.paused != null) out.push(c.paused ? 'pause' : 'go on');
  if (c.share != null) out.push(`share ${shareText(c.share)}`);
  for (const [name, s] of Object.entries(c.shadows ?? {})) {
    if (s.using != null) out.push(`${name}: ${s.using} ${s.using === 1 ? 'server' : 'servers'}`);
    if (s.amplify != null) out.push(`${name}: × ${s.amplify}`);
  }
  return out.join(', ');
}
