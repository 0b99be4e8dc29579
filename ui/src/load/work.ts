// The state of a short stretch of a simulation at any moment of it: what runs on
// each node, what waits there, and how far each query is.

import type { SimulationLayout, SimulationWork } from '../shared/api/schema';

export interface Unit {
  kind: string;
  query: number;
  shard: number;
  node: number; // -1 of aggregators
  thread: number;
  ready: number;
  start: number;
  end: number;
}

export interface Lane {
  node: number;
  threads: number;
}

export interface Stretch {
  units: Unit[]; // by start
  pauses: Unit[];
  lanes: Lane[]; // nodes in order, aggregators last
  queries: number[];
  from: number;
  to: number;
  /** Every moment at which something begins or ends, in order. */
  moments: number[];
  /** The most queries that are under way at a time. */
  most: number;
  /** Leaves of each query and when it was over. */
  of: Map<number, { leaves: Unit[]; first: number; last: number }>;
}

/** Reads the work of a layout; undefined if it has none. */
export function stretch(l: Pick<SimulationLayout, 'work' | 'nodes' | 'threads'>): Stretch | undefined {
  const all = (l.work ?? []).filter((w): w is SimulationWork & Unit => w.start != null && w.end != null && w.end >= w.start).map((w) => ({ ...w, ready: w.ready ?? w.start }));
  if (!all.length) return undefined;
  const units = all.filter((w) => w.kind !== 'pause').sort((a, b) => a.start - b.start);
  const threads = new Map<number, number>();
  for (const u of all) threads.set(u.node, Math.max(threads.get(u.node) ?? 1, u.thread + 1));
  for (let n = 0; n < Math.min(l.nodes, 512); n++) threads.set(n, Math.max(threads.get(n) ?? 1, Math.min(l.threads || 1, 64)));
  const lanes = [...threads].map(([node, n]) => ({ node, threads: n })).sort((a, b) => Number(a.node < 0) - Number(b.node < 0) || a.node - b.node);
  const of: Stretch['of'] = new Map();
  for (const u of units) {
    const q = of.get(u.query) ?? { leaves: [], first: Infinity, last: -Infinity };
    if (u.kind === 'leaf' || u.kind === 'hedge') q.leaves.push(u);
    q.first = Math.min(q.first, u.ready);
    q.last = Math.max(q.last, u.end);
    of.set(u.query, q);
  }
  const moments = [...new Set(all.flatMap((w) => [w.ready, w.start, w.end]))].sort((a, b) => a - b);
  // Queries come and go in order of time; who goes makes room first.
  const ends = [...of.values()].flatMap((q) => [[q.first, 1], [q.last, -1]] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let [under, most] = [0, 0];
  for (const [, d] of ends) most = Math.max(most, (under += d));
  return { most, units, pauses: all.filter((w) => w.kind === 'pause'), lanes, queries: [...of.keys()].sort((a, b) => a - b), from: moments[0], to: moments[moments.length - 1], moments, of };
}

export interface NodeState {
  lane: Lane;
  running: (Unit | undefined)[]; // by thread
  waiting: Unit[]; // in the order in which they came
  paused: boolean;
}

/** What every node does at a moment: begun and not ended, or asked for and not begun. */
export function stateAt(s: Stretch, t: number): NodeState[] {
  const by = new Map<number, NodeState>(s.lanes.map((lane) => [lane.node, { lane, running: Array.from({ length: lane.threads }), waiting: [], paused: false }]));
  for (const u of s.units) {
    if (u.ready > t || u.end <= t) continue;
    const n = by.get(u.node);
    if (!n) continue;
    if (u.start <= t) n.running[u.thread] = u;
    else n.waiting.push(u);
  }
  for (const p of s.pauses) if (p.start <= t && p.end > t) {
    const n = by.get(p.node);
    if (n) n.paused = true;
  }
  const out = [...by.values()];
  for (const n of out) n.waiting.sort((a, b) => a.ready - b.ready || a.shard - b.shard);
  return out;
}

export interface QueryState {
  query: number;
  done: number;
  leaves: number;
  /** Nodes that it still waits for. */
  nodes: number[];
  /** Since it came, seconds. */
  since: number;
  merging: boolean;
}

/** Queries under way at a moment, the oldest first. A leaf that is asked twice is done when the first of both is. */
export function queriesAt(s: Stretch, t: number): QueryState[] {
  const out: QueryState[] = [];
  for (const [query, q] of s.of) {
    if (q.first > t || q.last <= t || query < 0) continue;
    const shards = new Map<number, number>();
    const nodes = new Map<number, number>();
    for (const u of q.leaves) {
      if (u.end < (shards.get(u.shard) ?? Infinity)) shards.set(u.shard, u.end);
      if (u.kind === 'leaf') nodes.set(u.shard, u.node);
    }
    const open = [...shards].filter(([, end]) => end > t);
    out.push({
      query, leaves: shards.size, done: shards.size - open.length, nodes: [...new Set(open.map(([shard]) => nodes.get(shard) ?? -1))].sort((a, b) => a - b), since: t - q.first,
      merging: s.units.some((u) => u.kind === 'merge' && u.query === query && u.start <= t && u.end > t),
    });
  }
  return out.sort((a, b) => b.since - a.since || a.query - b.query);
}

/** The moment before or after t at which something happens. */
export function beside(s: Stretch, t: number, forward: boolean): number {
  const eps = (s.to - s.from) * 1e-9;
  if (forward) return s.moments.find((m) => m > t + eps) ?? s.to;
  for (let i = s.moments.length - 1; i >= 0; i--) if (s.moments[i] < t - eps) return s.moments[i];
  return s.from;
}

/** The state in a sentence, for who cannot see it. */
export function stateText(s: Stretch, t: number): string {
  const nodes = stateAt(s, t);
  const running = nodes.reduce((n, x) => n + x.running.filter(Boolean).length, 0);
  const waiting = nodes.reduce((n, x) => n + x.waiting.length, 0);
  const paused = nodes.filter((x) => x.paused).map((x) => x.lane.node + 1);
  const longest = [...nodes].sort((a, b) => b.waiting.length - a.waiting.length)[0];
  const queries = queriesAt(s, t);
  return `${running} ${running === 1 ? 'unit runs' : 'units run'}, ${waiting} ${waiting === 1 ? 'waits' : 'wait'}${longest?.waiting.length ? `, most at ${longest.lane.node < 0 ? 'the aggregator' : `node ${longest.lane.node + 1}`} (${longest.waiting.length})` : ''}; ${queries.length} ${queries.length === 1 ? 'query' : 'queries'} under way${paused.length ? `; node ${paused.join(', ')} paused` : ''}`;
}
