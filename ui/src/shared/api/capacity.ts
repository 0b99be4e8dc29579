// The JSON of searches for capacity and of the scalability law, as
// api/capacity.go declares it, as far as the page reads it.

import type { BenchEvent, BenchResult, Environment, Latency } from './load';
import type { Num, Range } from './types';
import type { CompareWarning } from './verdict';

type List<T> = T[] | null;

export interface Capacity {
  name: string;
  service: string;
  target: string;
  command: string;
  mode: string; // rate, mirror, servers, fit
  unit: string; // requests/s, copies, servers
  objective: string;
  arrivals: string;
  seed: number;
  start: Num;
  end: Num; // null while it runs
  environment: Environment;
  /** counts[i] of every slot lie in (bounds[i], bounds[i+1]]. */
  bounds: List<Num>;
  steps: List<CapacityStep>;
  answer?: CapacityAnswer;
  law?: ScalingLaw;
  events: List<BenchEvent>;
  progress?: string;
  restored: boolean;
  restore_error?: string;
  failed?: string;
  verdict: string; // found, at least, below, too little data
  headline: string;
  warnings: List<CompareWarning>;
}

export interface CapacityStep {
  phase: string; // rise, narrow, confirm, shrink
  x: Num;
  asked: Num;
  rate: Num;
  start: Num;
  end: Num;
  kept: string; // kept, broken, unclear
  objectives: List<CapacityObjective>;
  latency: Latency;
  uncorrected: Latency;
  errors: Num;
  concurrency: Num;
  waited: Num;
  queued: Num;
  queued_by?: string;
  worked: Num;
  cpu: Num;
  resources?: Record<string, Num> | null;
  generator: BenchResult['generator'];
  valid: boolean;
  why?: string;
  stopped?: string;
  stopped_after: Num;
  slots: List<CapacitySlot>;
}

export interface CapacityObjective {
  text: string; // p99 < 200ms
  value: Num; // seconds, or a share
  low: Num;
  high: Num;
  limit: Num;
  kept: string;
}

export interface CapacitySlot {
  time: Num; // seconds from the step's start
  width: Num;
  counts: List<number>;
  errors: number;
}

export interface CapacityAnswer {
  value: Num;
  low: Num;
  high: Num;
  level: Num;
  rate: Num;
  limit: string;
  sentence: string;
  next?: string;
}

export interface ScalingValue {
  value: Num;
  low: Num;
  high: Num;
}

export interface ScalingLaw {
  lambda: ScalingValue;
  sigma: ScalingValue;
  kappa: ScalingValue;
  peak_n: ScalingValue;
  peak_rate: ScalingValue;
  ceiling: ScalingValue;
  level: Num;
  r2: Num;
  error: Num;
  highest: Num;
  points: List<ScalingPoint>;
  source: string; // steps, stored
  sentence: string;
  warnings: List<string>;
}

export interface ScalingPoint {
  n: Num;
  rate: Num;
  mean: Num;
  time: Num; // null of a step
  left: boolean;
}

export interface ScalingResponse extends Range {
  step: number;
  law?: ScalingLaw;
  points: List<ScalingPoint>;
  warnings: List<CompareWarning>;
}
