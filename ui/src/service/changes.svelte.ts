// The changes of the page's service: asked once a minute at most, apart from
// everything else, and what the reader makes of them.

import type { Change, ChangeEvent, ChangesResponse } from '../shared/api/schema';
import { untrack } from 'svelte';
import { ApiError } from '../shared/api/client';
import { addressOf, askKnownFirst, bandOf, decide, drawn, eventOf, longest, ofAddress, readChanges, type ChangeStatus } from './changes';
import { more } from '../shared/page/charts.svelte';
import { app, Query } from '../shared/page/state.svelte';

export interface Asked {
  match: string;
  start: number;
  end: number;
}

export class Changes {
  readonly query = new Query<ChangesResponse>();
  /** The changes of all services, asked when one is opened: what else changed then. */
  private readonly elsewhere = new Query<ChangesResponse>();
  private elsewhereOf = '';
  private asked: Asked | undefined;
  /** What was decided here since the last answer, by id. */
  private decided = $state.raw<Record<string, { status: ChangeStatus; mark?: string }>>({});
  /** Where the open one was opened. */
  where = $state<'chart' | 'list'>('chart');
  busy = $state(false);
  problem = $state('');
  tooLong = $state(false);
  /** The one that was dismissed last, while it can be taken back where it was. */
  dismissed = $state.raw<Change | null>(null);

  readonly all = $derived<Change[]>(
    (this.query.data?.changes ?? []).map((c) => (this.decided[c.id] ? { ...c, ...this.decided[c.id] } : c)),
  );
  readonly drawn = $derived(drawn(this.all));
  readonly bands = $derived(this.drawn.map(bandOf));
  readonly open = $derived(ofAddress(this.all, app.view.more.change?.[0]) ?? null);

  /** Call while a component is being set up; asked is undefined while there is nothing to search. */
  constructor(
    asked: () => Asked | undefined,
    private saved: () => void,
  ) {
    const minute = $derived(Math.floor(app.now / 60));
    const key = $derived.by(() => {
      const q = asked();
      // A range that moves with the present is the same question for a minute.
      return q && JSON.stringify([q.match, 'last' in app.view.range ? [app.view.range.last, minute] : [q.start, q.end], app.attempt]);
    });
    $effect(() => {
      if (!key) return;
      const q = untrack(asked);
      if (!q) return;
      this.tooLong = q.end - q.start > longest;
      if (this.tooLong) {
        this.asking++;
        this.query.cancel();
        this.query.data = undefined;
        return;
      }
      this.asked = q;
      const same = untrack(() => this.match) === q.match;
      this.match = q.match;
      if (!same) this.query.data = undefined;
      const mine = ++this.asking;
      const ask = async (known: boolean) =>
        mine === this.asking
          ? this.query.ask(async (signal) => {
              const answer = await readChanges({ ...q, known }, signal);
              this.decided = {};
              this.dismissed = null;
              return answer;
            }, true)
          : undefined;
      untrack(() => void askKnownFirst(ask, !same));
    });
    $effect(() => () => void this.asking++);
  }
  private match = '';
  /** Questions until all is searched: the newest goes on. */
  private asking = 0;

  /** The event of several services that a change is of, once it is known. */
  event(c: Change): ChangeEvent | undefined {
    return eventOf(this.elsewhere.data, c);
  }

  askElsewhere() {
    const q = this.asked;
    if (!q) return;
    const key = `${q.start}-${q.end}`;
    if (key === this.elsewhereOf) return;
    this.elsewhereOf = key;
    untrack(() => this.elsewhere.ask((signal) => readChanges({ match: '', start: q.start, end: q.end }, signal), true));
  }

  /** The list of them has its height. */
  get settled(): boolean {
    return this.tooLong || this.query.settled;
  }

  show(c: Change | null, where: 'chart' | 'list' = 'chart') {
    this.where = where;
    this.problem = '';
    app.go({ more: more({ change: c ? addressOf(c) : null }) }, 'replace');
  }

  async decide(c: Change, status: ChangeStatus, name = ''): Promise<boolean> {
    this.busy = true;
    this.problem = '';
    try {
      const done = await decide(c, status, name);
      this.decided = { ...this.decided, [c.id]: { status: done.status, mark: done.mark } };
      this.dismissed = done.status === 'dismissed' ? c : null;
      this.saved();
      return true;
    } catch (e) {
      this.problem = e instanceof ApiError ? e.message : String(e);
      return false;
    } finally {
      this.busy = false;
    }
  }
}
