// What shows an experiment, by the report it holds: each a script of its own.

import type { Loader } from './shared/page/lazy.svelte';

export const runs = {
  bench: () => import('./load/BenchRun.svelte'),
  trial: () => import('./load/TrialRun.svelte'),
  capacity: () => import('./load/CapacityRun.svelte'),
  simulation: () => import('./load/SimulationRun.svelte'),
} satisfies Record<string, Loader>;
