// Earlier days laid over the stacked charts of a page: how high the whole was
// then, and what it was made of. The server answers the page's own question of
// that day, at the times shown.

import { untrack } from 'svelte';
import { dayDashes, dayName, dayOverlays, overlayNames, type DayOverlay, type OfDay, zone } from '../shared/page/days';
import { lineOf, type Layer, type Line } from './stack';
import { app, Query } from '../shared/page/state.svelte';
import type { TimelineResponse } from '../shared/api/schema';

type Answer = Pick<TimelineResponse, 'start' | 'step' | 'times' | 'overlay'>;

export class Earlier<T extends Answer> {
  private queries: Record<DayOverlay, Query<T>> = { yesterday: new Query(), week: new Query(), like: new Query() };
  /** Those that the reader chose. */
  days = $derived(dayOverlays.filter((d) => app.view.show.includes(d)));
  private question: () => ((of: OfDay, signal: AbortSignal) => Promise<T>) | undefined;

  /** Call while a component is being set up. question says what is asked of each day, or nothing yet. */
  constructor(question: () => ((of: OfDay, signal: AbortSignal) => Promise<T>) | undefined) {
    this.question = question;
    $effect(() => {
      void app.attempt;
      const ask = this.question();
      const days = this.days;
      if (!ask) return;
      untrack(() => {
        for (const d of days) this.queries[d].ask((signal) => ask({ overlay: overlayNames[d], tz: zone }, signal), true);
      });
    });
  }

  /** Their lines on a chart's steps; layers says what an answer is made of, and shared that it always adds up to one. */
  lines(to: { start: number; step: number; n: number }, layers: (t: T) => Layer[], shared = false): Line[] {
    return this.days.flatMap((d): Line[] => {
      const t = this.queries[d].data;
      const line = t && lineOf(dayName(d, t), dayDashes[d], t, layers(t), to, shared);
      return line ? [line] : [];
    });
  }

  /** Names of the days that were answered and have nothing to show. */
  missing(lines: Line[]): string[] {
    const names = this.days.flatMap((d) => {
      const t = this.queries[d].data;
      return t ? [dayName(d, t)] : [];
    });
    // Yesterday may be the last day like today, too.
    return [...new Set(names)].filter((n) => !lines.some((l) => l.name === n));
  }
}
