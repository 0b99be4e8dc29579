// Whether the page is being printed, for what is drawn by the pixel.

import { flushSync } from 'svelte';

class Paper {
  on = $state(false);

  constructor() {
    const set = (on: boolean) => flushSync(() => (this.on = on));
    addEventListener('beforeprint', () => set(true));
    addEventListener('afterprint', () => set(false));
  }
}

export const paper = new Paper();

/** What fits between the margins of a sheet of A4, in CSS pixels. */
export const paperWidth = 690;
