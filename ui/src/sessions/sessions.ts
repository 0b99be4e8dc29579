// Sessions as the page lists them: what each is about, how much of it there
// is, and how long it ran.

import type { Session } from '../shared/api/schema';
import type { Loader } from '../shared/page/lazy.svelte';
import { shellQuote } from '../shared/page/match';
import { spanName } from '../shared/text/time';
import type { Num } from '../shared/api/types';
import { until, candidatesOf } from '../shared/page/session';
import { serverFlag } from '../shared/text/export';

/** A run of load as its page is told of it: what draws it, from which report, and its tables as CSV. */
export interface Run {
  what: string;
  show: Loader;
  report: Record<string, unknown>;
  csv: () => string;
}

/** What starts a session, for who has none yet. */
export const startCommand = 'tailscope mirror --listen :8080 --primary http://a:8081 --candidate http://b:8082';

/** How long, to the second below an hour: 12 min 31 s, 3.2 h. */
export function longText(e: Pick<Session, 'start' | 'end' | 'updated' | 'state'>, now: number): string {
  if (e.start == null) return '–';
  const s = Math.max(0, Math.round(until(e, now) - e.start));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, '0')} s`;
  return s < 86400 ? `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} min` : spanName(Math.round(s / 3600) * 3600);
}

/** What a list says of one beneath its name: candidates, the variable and its settings, how it was loaded, the objective, the curves. */
export function aboutText(e: Session): string {
  if (e.experiment) return [e.experiment.variable, e.experiment.settings.slice(0, 6).map((s) => s.name.replace(`${e.experiment!.variable}=`, '')).join(', ')].filter(Boolean).join(': ');
  if (e.capacity) return [e.capacity.objective, e.capacity.target].filter(Boolean).join(', ');
  if (e.simulation) return [e.simulation.service, [...new Set(e.simulation.layouts.map((l) => l.curve || (e.simulation!.variable ? '' : l.name)))].filter(Boolean).slice(0, 6).join(', '), e.simulation.variable && `by ${e.simulation.variable}`].filter(Boolean).join(', ');
  if (e.bench) return [e.bench.variant, e.bench.plan.arrivals === 'closed' ? 'closed loop' : '', e.bench.target].filter(Boolean).join(', ');
  return candidatesOf(e.mirror).map((c) => c.name).join(', ');
}

// A list has no more layouts of each.
const briefLayouts = 32;

/** How much there is of one: requests, connections, rounds, layouts; of a search for capacity what it found. */
export function sizeOf(e: Session): { n: Num; what: string } {
  if (e.experiment) return { n: e.experiment.stopping.done, what: 'rounds' };
  if (e.capacity) return { n: e.capacity.answer?.value ?? null, what: e.capacity.unit };
  if (e.simulation) return { n: e.simulation.layouts.length ?? null, what: e.simulation.layouts.length < briefLayouts ? 'layouts' : 'layouts or more' };
  if (e.bench) return { n: e.bench.account.sent, what: 'requests' };
  return { n: e.mirror?.requests ?? null, what: e.mirror?.mode === 'tcp' ? 'connections' : 'requests' };
}

/** The command that writes the report of a session. */
export function reportCommand(id: string, server: string): string {
  return ['tailscope', 'report', 'session', shellQuote(id), ...serverFlag(server)].join(' ');
}
