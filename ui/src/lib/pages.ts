// The pages, each a script of its own.

import { bring, type Loader } from './lazy.svelte';
import type { Page, View } from './url';

const distribution: Loader = () => import('../pages/Distribution.svelte');
const calls: Loader = () => import('../pages/Calls.svelte');

export const pages: Record<Page, Loader> = {
  services: () => import('../pages/Services.svelte'),
  service: distribution,
  family: distribution,
  breakdown: () => import('../pages/Breakdown.svelte'),
  operations: () => import('../pages/Operations.svelte'),
  database: calls,
  external: calls,
  slow: () => import('../pages/Slow.svelte'),
  sla: () => import('../pages/Sla.svelte'),
  trace: () => import('../pages/Trace.svelte'),
  mark: () => import('../pages/BeforeAfter.svelte'),
  tenants: () => import('../pages/Tenants.svelte'),
  compare: () => import('../pages/Compare.svelte'),
  experiments: () => import('../pages/Experiments.svelte'),
  experiment: () => import('../pages/Experiment.svelte'),
  checks: () => import('../pages/Checks.svelte'),
  check: () => import('../pages/Check.svelte'),
  marks: () => import('../pages/Marks.svelte'),
  simulate: () => import('../pages/Simulate.svelte'),
  scaling: () => import('../pages/Scaling.svelte'),
  families: () => import('../pages/Families.svelte'),
};

export const needed = (v: View): Promise<void> | undefined => bring(pages[v.page]);
