// The JSON of simulations, as api/simulation.go declares it.

import type { ScalingValue } from './capacity';
import type { Latency } from './load';
import type { Num } from './types';
import type { CompareWarning } from './verdict';

type List<T> = T[] | null;

export interface Simulation {
  name: string;
  service: string;
  command: string;
  file: string; // the words it was made of
  seed: number;
  start: Num;
  end: Num;
  seconds: Num;
  variable: string; // nodes, shards, rate, …; empty if layouts just differ
  leaves: List<SimulationLeaf>;
  layouts: List<SimulationLayout>;
  progress?: string;
  failed?: string;
  headline: string;
  warnings: List<CompareWarning>;
}

export interface SimulationLeaf {
  class: string;
  weight: Num;
  source: string;
  observations: number;
  slots: number;
  shards: Num;
  latency: Latency;
  together: Num;
}

export interface SimulationLayout {
  name: string;
  curve: string;
  x: Num;
  nodes: number;
  shards: number;
  threads: number;
  cores: Num;
  rounds: number;
  per_node: Num;
  rate: Num;
  queries: number;
  cost: Num;
  cost_each: Num;
  stable: boolean;
  why?: string;
  mean: ScalingValue;
  quantiles: Record<string, ScalingValue> | null;
  no_queue: Record<string, Num> | null;
  leaf: Record<string, Num> | null;
  waiting: Num;
  straggler: Num;
  merge: Num;
  utilisation: Num;
  busiest: Num;
  aggregator: Num;
  hedged: Num;
  cached: Num;
  work?: List<SimulationWork>;
}

export interface SimulationWork {
  kind: string; // leaf, hedge, merge, pause
  query: number; // -1 of a pause
  shard: number; // -1 of a merge or a pause
  node: number; // -1 of aggregators
  thread: number;
  ready: Num;
  start: Num;
  end: Num;
}
