// Earlier days laid over the stacked charts of a page: as high as the whole
// stack was then.

import { untrack } from 'svelte';
import type { Select } from './api';
import { dayDashes, dayName, dayOverlays, heights, onSteps, readDay, type DayOverlay, type DayTimeline, type Height } from './days';
import type { Line } from './stack';
import { app, Query } from './state.svelte';

/** The reader's own zone, by whose clock days are laid over each other. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

export class Earlier {
  private queries: Record<DayOverlay, Query<DayTimeline>> = { yesterday: new Query(), week: new Query(), like: new Query() };
  /** Those that the reader chose. */
  days = $derived(dayOverlays.filter((d) => app.view.show.includes(d)));

  /** Call while a component is being set up. ask says which durations, in how many columns; undefined: none. */
  constructor(ask: () => { select: Select; width: number } | undefined) {
    $effect(() => {
      void app.attempt;
      const a = ask();
      const days = this.days;
      if (!a) return;
      untrack(() => {
        for (const d of days) this.queries[d].ask((signal) => readDay(d, a.select, { width: a.width, q: '0.5' }, zone, signal), true);
      });
    });
  }

  /** Their lines on a chart's steps. */
  lines(to: { start: number; step: number; n: number }, height: Height): Line[] {
    return this.days.flatMap((d): Line[] => {
      const t = this.queries[d].data;
      const values = t ? onSteps(heights(t, height), t, to) : [];
      return values.some((v) => v != null) ? [{ name: dayName(d, t), dash: dayDashes[d], values }] : [];
    });
  }
}
