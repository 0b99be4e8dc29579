// What shows an experiment, by the report it holds: each a script of its own.

import type { Loader } from './lazy.svelte';

export const runs = {
  bench: () => import('../components/BenchRun.svelte'),
  trial: () => import('../components/TrialRun.svelte'),
  capacity: () => import('../components/CapacityRun.svelte'),
  simulation: () => import('../components/SimulationRun.svelte'),
} satisfies Record<string, Loader>;
