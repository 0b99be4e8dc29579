// One question asked again and again while the page is seen: the next one a
// while after the answer, so that a slow server is never asked twice at once.

import { untrack } from 'svelte';
import { Query } from '../shared/page/state.svelte';

export class Poll<T> extends Query<T> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private question: ((signal: AbortSignal) => Promise<T>) | undefined;
  private every = 1000;
  private on = false;

  /** Asks now, and again each so many milliseconds while going holds. */
  constructor(private going: (data: T | undefined) => boolean) {
    super();
    $effect(() => {
      const seen = () => this.next(0);
      document.addEventListener('visibilitychange', seen);
      return () => {
        this.on = false;
        document.removeEventListener('visibilitychange', seen);
        clearTimeout(this.timer);
        this.cancel();
      };
    });
  }

  start(question: (signal: AbortSignal) => Promise<T>, every: number): void {
    this.question = question;
    this.every = every;
    this.on = true;
    void this.now();
  }

  /** Asks at once. */
  async now(): Promise<void> {
    clearTimeout(this.timer);
    const { question } = this;
    if (!question) return;
    await untrack(() => this.ask(question, this.data !== undefined));
    if (this.question === question) this.next(this.error ? Math.max(2000, this.every) : this.every);
  }

  private next(after: number): void {
    clearTimeout(this.timer);
    if (!this.on || document.hidden || !untrack(() => this.going(this.data))) return;
    this.timer = setTimeout(() => (document.hidden || this.pending ? undefined : this.now()), after);
  }
}
