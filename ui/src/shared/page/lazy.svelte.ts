// What draws a page is a script of its own, fetched when it is first needed; one
// that is here stays. A script that could not be had is asked for again next time.

import type { Component } from 'svelte';

type Any = Component<any>;
export type Loader = () => Promise<{ default: Any }>;

let here = $state.raw<Map<Loader, Any>>(new Map());
const coming = new Map<Loader, Promise<void>>();

/** What a loader has brought, undefined before. */
export const drawnBy = (l: Loader): Any | undefined => here.get(l);

/** Brings it, once: undefined if it is here already. Fails with a sentence. */
export function bring(l: Loader): Promise<void> | undefined {
  if (here.has(l)) return undefined;
  let p = coming.get(l);
  if (!p) {
    p = l().then((m) => void (here = new Map(here).set(l, m.default))).finally(() => coming.delete(l));
    coming.set(l, p);
  }
  return p;
}
