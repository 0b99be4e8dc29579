// What the charts of one page share: the moment pointed at, the marks, zoom.

import { untrack } from 'svelte';
import { api } from '../api/client';
import { app, Query } from './state.svelte';
import type { MarksResponse } from '../api/schema';
import { typed } from './keys';
import { concerns } from '../verdict/marks';

export class Charts {
  /** The moment pointed at in any of them; while there is one, live refresh waits. */
  cursor = $state<number | null>(null);
  /** The pointer is in a table, whose rows must not move away from under it. */
  reading = $state(false);
  private query = new Query<MarksResponse>();
  marks = $derived((this.query.data?.marks ?? []).filter((m) => concerns(m, app.view.name, app.view.filters.environment)));

  /** Call while a component is being set up. Marks are those around the range given. */
  constructor(range?: () => { start: number; end: number }) {
    $effect(() => {
      const r = range?.();
      if (!r) return;
      untrack(() => this.query.ask((signal) => api.marks(r.start, r.end, signal), true));
    });
    $effect(() => {
      app.held = this.cursor != null || this.reading;
      return () => (app.held = false);
    });
  }

  point = (t: number | null) => {
    this.cursor = t;
  };

  enter = (e: PointerEvent) => {
    if (e.pointerType === 'mouse') this.reading = true;
  };

  leave = () => {
    this.reading = false;
  };

  zoom = (start: number, end: number) => app.go({ range: { start: Math.round(start), end: Math.round(end) } }, 'zoom');

  back = () => {
    const before = app.zooms[app.zooms.length - 1];
    if (before) app.go({ range: before }, 'out');
  };

  keys = (e: KeyboardEvent) => {
    if (typed(e) || document.querySelector('dialog[open]')) return;
    if ((e.key !== 'b' && e.key !== 'Backspace') || !app.zooms.length) return;
    this.back();
    e.preventDefault();
  };
}

/** Changes what a page keeps for itself in the address; null takes it out. */
export function more(patch: Record<string, string | null | undefined>): Record<string, string[]> {
  const next = { ...app.view.more };
  for (const [k, v] of Object.entries(patch)) {
    if (v == null) delete next[k];
    else next[k] = [v];
  }
  return next;
}
