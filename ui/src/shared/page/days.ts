// Earlier days laid over the shown one, by wall clock. The server aligns them;
// here their values are put on a chart's own steps.

import type { TimelineResponse } from '../api/schema';
import { api, get, type Select } from '../api/client';
import type { Num } from '../api/types';

/** The day overlays as the address names them, and as the API does. */
export const dayOverlays = ['yesterday', 'week', 'like'] as const;
export type DayOverlay = (typeof dayOverlays)[number];
export const overlayNames: Record<DayOverlay, string> = { yesterday: 'day', week: 'week', like: 'like' };
export const dayTitles: Record<DayOverlay, { label: string; title: string }> = {
  yesterday: { label: 'yesterday', title: 'The day before, at the same time of day' },
  week: { label: 'last week', title: 'The same weekday a week before, at the same time of day' },
  like: { label: 'last like day', title: 'The last day like it: for a working day the working day before, for a Saturday or Sunday that of the week before' },
};

/** What a question is asked with, to be answered of an earlier day. */
export interface OfDay {
  overlay?: string;
  tz?: string;
}

/** The timeline of an earlier day, on the times of the shown range. */
export function readDay(day: DayOverlay, s: Select, o: { width: number; q?: string; by?: string; per?: string; limit?: number }, zone: string, signal?: AbortSignal): Promise<TimelineResponse> {
  return get<TimelineResponse>('timeline', { family: s.family, match: s.match, start: s.start, end: s.end, ...o, overlay: overlayNames[day], tz: zone }, signal);
}

export const readTimeline = (s: Select, o: { width: number; q?: string; by?: string; per?: string; limit?: number }, signal?: AbortSignal): Promise<TimelineResponse> =>
  o.per ? get<TimelineResponse>('timeline', { family: s.family, match: s.match, start: s.start, end: s.end, ...o }, signal) : api.timeline(s, o, signal);

/**
 * Values of steps from `start` on, laid on other steps: a longer step gives its
 * value to all it covers, of shorter ones the mean of those that are known.
 */
export function onSteps(values: Num[] | undefined, from: { start: number; step: number }, to: { start: number; step: number; n: number }): Num[] {
  if (!values?.length) return [];
  if (from.step === to.step && from.start === to.start) return values.length > to.n ? values.slice(0, to.n) : values;
  const out: Num[] = new Array(to.n).fill(null);
  for (let i = 0; i < to.n; i++) {
    const t = to.start + i * to.step;
    const first = Math.floor((t - from.start) / from.step);
    const last = Math.max(first, Math.ceil((t + to.step - from.start) / from.step) - 1);
    let sum = 0;
    let n = 0;
    for (let k = Math.max(0, first); k <= Math.min(last, values.length - 1); k++) {
      const v = values[k];
      if (v != null) {
        sum += v;
        n++;
      }
    }
    if (n) out[i] = sum / n;
  }
  return out;
}

/** "Fri 13 Nov", as the server says; the overlay's own name until it has answered. */
export function dayName(day: DayOverlay, t: Pick<TimelineResponse, 'overlay'> | undefined): string {
  return t?.overlay?.of || dayTitles[day].label;
}

/** Dashes tell the days apart where several are shown. */
export const dayDashes: Record<DayOverlay, number[]> = { yesterday: [5, 4], week: [9, 4], like: [2, 3] };

/** The reader's own zone, by whose clock days are laid over each other. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
