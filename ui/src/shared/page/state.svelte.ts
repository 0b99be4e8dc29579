// What the page shows (the view, which is the address), what the server said
// last, and how one becomes the other.

import { untrack } from 'svelte';
import { ApiError, api, unreadScript } from '../api/client';
import type { Theme } from '../chart/ramp';
import { fittingRange, type TimeRange } from '../text/time';
import type { StatusResponse } from '../api/schema';
import { carried } from './match';
import { decode, encode, fits, home, type View } from './url';

/** How long the first view waits for the status at most, in milliseconds. */
const longestWait = 1000;

interface Step {
  /** The ranges that zooms left behind, so that zooming out goes back through them. */
  zooms: TimeRange[];
}

class App {
  view = $state.raw<View>(decode(location.pathname, location.search));
  zooms = $state.raw<TimeRange[]>((history.state as Step | null)?.zooms ?? []);
  status = $state.raw<StatusResponse | undefined>();
  /** The server said that it has no data. */
  readonly empty = $derived(this.status?.has_data === false);
  /** The server's clock minus ours, in seconds. */
  skew = 0;
  themeChoice = $state<'auto' | Theme>(storedTheme());
  systemDark = $state(matchMedia('(prefers-color-scheme: dark)').matches);
  theme = $derived<Theme>(this.themeChoice === 'auto' ? (this.systemDark ? 'dark' : 'light') : this.themeChoice);
  /** The moment a relative range ends at; live refresh advances it. */
  now = $state(Date.now() / 1000);
  /** Counts the reader's demands to ask again. */
  attempt = $state(0);
  /** What holds live refresh back: the reader points at something. */
  held = $state(false);

  /** The view that waits for what draws it; the one before it stays until then. */
  coming = $state.raw<View | undefined>();
  /** What could not be had, of which view. */
  unread = $state.raw<{ view: View; error: ApiError } | undefined>();
  private need: (v: View) => Promise<void> | undefined = () => undefined;
  /** The address is already that of the view that waits: Back was pressed. */
  private popped = false;

  constructor() {
    addEventListener('popstate', (e) => {
      const next = decode(location.pathname, location.search);
      this.enter(next, () => {
        this.zooms = (e.state as Step | null)?.zooms ?? [];
        this.view = next;
        this.touch();
      }, true);
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (e) => (this.systemDark = e.matches));
  }

  /** Whether the reader, or a link, chose a range; if not, the data may. */
  private rangeChosen = /[?&](range|start)=/.test(location.search);

  /**
   * The view may ask. An unchosen range waits for the status, which says since when there is
   * data, so that nothing is asked in one range and then in another.
   */
  begun = $state(this.rangeChosen || !fits(this.view));

  /** Narrows an unchosen range to the data there is. */
  fit(first: number | null | undefined): void {
    if (this.rangeChosen || first == null || this.popped || !('last' in this.view.range)) return;
    const last = fittingRange(first, this.now, this.view.range.last);
    if (last !== undefined) this.show({ ...this.view, range: { last } }, { range: { last } }, 'replace');
    // A narrower range has finer columns and may fit closer still.
    this.rangeChosen = last === undefined;
  }

  /** The server's clock, Unix seconds. */
  clock(): number {
    return Date.now() / 1000 + this.skew;
  }

  /** Moves the end of a relative range to the present. */
  touch(): void {
    this.now = this.clock();
  }

  /** Asks again what failed, also for a range that does not move. */
  retry(): void {
    this.attempt++;
    this.touch();
  }

  /** Tells what brings what a view is drawn by, and brings it for the first view. */
  begin(need: (v: View) => Promise<void> | undefined): void {
    this.need = need;
    this.enter(this.view, () => {});
    setTimeout(() => (this.begun = true), longestWait);
  }

  /** Does it once what draws the view is here. Of views of several pages the last one counts. */
  private enter(v: View, done: () => void, popped = false): void {
    const wait = this.need(v);
    if (!wait && v.page === this.view.page && !popped) {
      // A page that is left must not write its own address over that which waits.
      if (!this.popped) done();
      return;
    }
    this.unread = undefined;
    this.coming = wait && v;
    this.popped = popped && !!wait;
    const turn = this.coming;
    const over = () => {
      if (this.coming !== turn) return false;
      this.coming = undefined;
      this.popped = false;
      return true;
    };
    if (!wait) return done();
    wait.then(
      () => over() && done(),
      () => over() && (this.unread = { view: v, error: unreadScript() }),
    );
  }

  /** Changes the view. A new entry in the history unless told otherwise. */
  go(patch: Partial<View>, how: 'push' | 'replace' | 'zoom' | 'out' = 'push'): void {
    const filters = patch.filters ? carried(patch.filters, this.view.filters) : this.view.filters;
    this.turn({ ...this.view, ...patch, filters }, patch, how);
  }

  private turn(next: View, patch: Partial<View>, how: 'push' | 'replace' | 'zoom' | 'out', then?: () => void): void {
    this.enter(next, () => {
      this.show(next, patch, how);
      then?.();
    });
  }

  private show(next: View, patch: Partial<View>, how: 'push' | 'replace' | 'zoom' | 'out'): void {
    if (patch.range !== undefined) this.rangeChosen = true;
    const address = encode(next);
    const moved = patch.range !== undefined || patch.page !== undefined || patch.name !== undefined;
    if (address !== location.pathname + location.search) {
      if (how === 'zoom') this.zooms = [...this.zooms, this.view.range];
      else if (how === 'out') this.zooms = this.zooms.slice(0, -1);
      else if (how === 'push' && moved) this.zooms = [];
      const step: Step = { zooms: this.zooms };
      if (how === 'replace') history.replaceState(step, '', address);
      else history.pushState(step, '', address);
    }
    this.view = next;
    if (moved) this.touch();
  }

  /** Opens another page, keeping only what makes sense there: range and liveness. */
  open(address: string): void {
    const u = new URL(address, location.href);
    const v = decode(u.pathname, u.search);
    const changedPage = v.page !== this.view.page || v.name !== this.view.name;
    this.turn(v, v, 'push', () => changedPage && scrollTo(0, 0));
  }

  /** The address of another page in the same range and environment. */
  link(patch: Partial<View>): string {
    const v = this.view;
    return encode({ ...home(), range: v.range, live: v.live, ...patch, filters: carried(patch.filters ?? {}, v.filters) });
  }

  setTheme(choice: 'auto' | Theme): void {
    this.themeChoice = choice;
    if (choice === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    try {
      if (choice === 'auto') localStorage.removeItem('tailscope.theme');
      else localStorage.setItem('tailscope.theme', choice);
    } catch {
      // Private windows may have no storage; the choice then lasts as long as the page.
    }
  }

  async readStatus(signal?: AbortSignal): Promise<StatusResponse> {
    const before = Date.now() / 1000;
    let s: StatusResponse;
    try {
      s = await api.status(signal);
    } catch (e) {
      this.begun = true;
      throw e;
    }
    if (s.now != null) {
      const ours = (before + Date.now() / 1000) / 2;
      // Below two seconds the difference is the network's.
      const skew = Math.abs(s.now - ours) > 2 ? s.now - ours : 0;
      const moved = Math.abs(skew - this.skew) > 2;
      this.skew = skew;
      if (moved) this.touch();
    }
    if ((!this.begun || this.empty) && fits(this.view)) this.fit(s.first);
    this.status = s;
    this.begun = true;
    return s;
  }
}

function storedTheme(): 'auto' | Theme {
  const t = document.documentElement.dataset.theme;
  return t === 'light' || t === 'dark' ? t : 'auto';
}

export const app = new App();

/**
 * One question to the server. A newer question cancels the older one; the old
 * answer stays until the new one is there, so that the picture never blinks.
 */
export class Query<T> {
  data = $state.raw<T | undefined>();
  error = $state.raw<ApiError | undefined>();
  pending = $state(false);
  /** The question changed and its answer is not here yet: the picture is dimmed. */
  stale = $state(false);
  /** Waiting for more than a second. */
  slow = $state(false);
  private abort: AbortController | undefined;

  /** There is an answer, if only that it failed: what it shows has its height. */
  get settled(): boolean {
    return this.data !== undefined || this.error !== undefined;
  }

  /**
   * Asks. quiet is for the same question asked again: nothing is dimmed. It returns the answer,
   * undefined if it failed or a newer question took its place. An effect that asks is not run
   * again by the answer.
   */
  async ask(question: (signal: AbortSignal) => Promise<T>, quiet = false): Promise<T | undefined> {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    this.pending = true;
    this.stale = !quiet && untrack(() => this.data !== undefined);
    this.slow = false;
    const timer = setTimeout(() => {
      if (this.abort === abort && !quiet) this.slow = true;
    }, 1000);
    try {
      const data = await question(abort.signal);
      if (this.abort !== abort) return undefined;
      this.data = data;
      this.error = undefined;
      return data;
    } catch (e) {
      if (this.abort !== abort || abort.signal.aborted) return undefined;
      this.error = e instanceof ApiError ? e : new ApiError(String(e), 0, 'page', undefined, location.pathname);
      return undefined;
    } finally {
      clearTimeout(timer);
      if (this.abort === abort) {
        this.pending = this.stale = this.slow = false;
        this.abort = undefined;
      }
    }
  }

  cancel(): void {
    this.abort?.abort();
    this.abort = undefined;
    this.pending = this.stale = this.slow = false;
  }
}
