// What the demo does, as its line says it. Pure.

import { clockName } from '../shared/text/time';
import type { Act } from '../shared/api/schema';

/** A time of day in whole minutes: what comes is not known by the second. */
export const minute = (t: number, zone?: string): string => clockName(t - (t % 60), zone);

/** When an act was, is or comes, in words: a time of day, which holds while nobody asks again. */
export function when(a: Act, now: number, zone?: string): string {
  const at = a.at ?? now;
  if (a.state === 'runs') return `since ${minute(at, zone)}`;
  if (a.state !== 'comes') return `at ${minute(at, zone)}`;
  return at - now < 45 ? 'at any moment' : `at ${minute(at, zone)}`;
}

/** The acts that the line names: the one that runs, and the next. */
export function named(acts: Act[]): { lead: string; act: Act }[] {
  const runs = acts.find((a) => a.state === 'runs');
  const next = acts.find((a) => a.state === 'comes');
  // What runs may take longer than is usual: what comes then waits.
  return [...(runs ? [{ lead: 'Now', act: runs }] : []), ...(next ? [{ lead: runs ? 'Next, unless this takes longer' : 'Next', act: next }] : [])];
}

/** In how many seconds the server is to be asked again, so that the line follows what happens. */
export function askIn(acts: Act[], now: number): number {
  if (acts.some((a) => a.state === 'runs')) return 5;
  const next = acts.find((a) => a.state === 'comes')?.at ?? now + 60;
  const open = acts.some((a) => a.state === 'done' && (!a.verdict || a.verdict.startsWith('so far')));
  return Math.max(2, Math.min(next - now + 1, open ? 15 : 60));
}

/** Whether the line was hidden in this run of the demo; stored is when its first act came. */
export const sameRun = (acts: Act[], stored: string | null): boolean => stored !== null && Math.abs(Number(stored) - (acts[0]?.at ?? 0)) < 60;
