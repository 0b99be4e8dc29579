// The pages, each a script of its own.

import { bring, type Loader } from './shared/page/lazy.svelte';
import type { Page, View } from './shared/page/url';

const distribution: Loader = () => import('./service/Distribution.svelte');
const calls: Loader = () => import('./traces/Calls.svelte');

export const pages: Record<Page, Loader> = {
  services: () => import('./service/Services.svelte'),
  service: distribution,
  family: distribution,
  breakdown: () => import('./traces/Breakdown.svelte'),
  operations: () => import('./traces/Operations.svelte'),
  database: calls,
  external: calls,
  slow: () => import('./traces/Slow.svelte'),
  sla: () => import('./service/Sla.svelte'),
  trace: () => import('./traces/Trace.svelte'),
  mark: () => import('./marks/BeforeAfter.svelte'),
  tenants: () => import('./tenants/Tenants.svelte'),
  compare: () => import('./compare/Compare.svelte'),
  sessions: () => import('./sessions/Sessions.svelte'),
  session: () => import('./Session.svelte'),
  checks: () => import('./checks/Checks.svelte'),
  check: () => import('./checks/Check.svelte'),
  marks: () => import('./marks/Marks.svelte'),
  simulate: () => import('./load/Simulate.svelte'),
  scaling: () => import('./load/Scaling.svelte'),
  cluster: () => import('./cluster/Cluster.svelte'),
  families: () => import('./service/Families.svelte'),
};

export const needed = (v: View): Promise<void> | undefined => bring(pages[v.page]);
