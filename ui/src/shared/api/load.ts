// The JSON of runs of load and experiments, as api/bench.go and api/experiment.go
// declare it, as far as the page reads it.

import type { Num, Counts } from './types';
import type { CompareWarning } from './verdict';

type List<T> = T[] | null;

export interface Latency {
  count: number;
  mean: Num;
  min: Num;
  max: Num;
  quantiles: Record<string, Num> | null;
  error: Num;
  /** counts[i] lie in (bounds[i], bounds[i+1]]. */
  bounds?: Num[];
  counts?: number[];
}

export interface BenchAccount {
  due: number;
  sent: number;
  answered: number;
  dropped: number;
  unsent: number;
  cut_off: number;
  failed: Counts;
  statuses: Counts;
  checks: Counts;
  errors: number;
}

export interface BenchQuery {
  name: string;
  sent: number;
  answered: number;
  errors: number;
  bytes: number;
  statuses: Counts;
  checks: Counts;
  latency: Latency;
  uncorrected: Latency;
}

export interface BenchSlot {
  time: Num;
  width: Num;
  due: number;
  answered: number;
  errors: number;
  waiting: number;
  p50: Num;
  p99: Num;
  max: Num;
  late: Num;
}

export interface BenchEvent {
  time: Num;
  end: Num;
  kind: string;
  name: string;
  text?: string;
  failed?: boolean;
}

export interface WarmUp {
  seconds: Num;
  requests: number;
  steady: boolean;
  why: string;
}

export interface BenchLoad {
  name: string;
  documents: number;
  bytes: number;
  batches: number;
  errors: number;
  seconds: Num;
  rate: Num;
  latency: Latency;
}

export interface Environment {
  host: string;
  os: string;
  kernel: string;
  cpu: string;
  cores: number;
  memory: number;
  go: string;
  version: string;
  commit: string;
  versions: Record<string, string> | null;
  configuration: Record<string, string> | null;
}

export interface BenchResult {
  name: string;
  target: string;
  service: string;
  variant: string;
  command: string;
  start: Num;
  end: Num;
  seed: number;
  plan: { arrivals: string; protocol: string; tls: boolean; connections: number; timeout: Num; duration: Num };
  environment: Environment;
  account: BenchAccount;
  asked: Num; // null of a closed loop
  rate: Num;
  latency: Latency;
  uncorrected: Latency;
  first_byte: Latency;
  bytes: number;
  queries: List<BenchQuery>;
  tenants: List<BenchQuery>;
  phases: List<{ name: string; start: Num; end: Num; from: Num; to: Num; due: number; answered: number; errors: number; latency: Latency; uncorrected: Latency }>;
  timeline: List<BenchSlot>;
  events: List<BenchEvent>;
  notes?: List<string>; // what of a recording or a log was not sent
  thresholds: List<{ text: string; query?: string; value: Num; met: boolean; aborted?: boolean }>;
  resources: List<{ process: string; name: string; unit: string; times: Num[] | null; values: Num[] | null; per_request: Num; mean: Num; max: Num }>;
  loads: List<BenchLoad>;
  warm_up?: WarmUp;
  generator: { cpu_seconds: Num; cpu_per_request: Num; cores: Num; loops: number; busiest: Num; late: Latency; blocked: Latency; host: Num };
  valid: boolean;
  invalid: List<string>;
  aborted?: string;
  headline: string;
}

export interface ExperimentMeasure {
  name: string;
  control: Num;
  variant: Num;
  effect: Num;
  low: Num;
  high: Num;
  p: Num;
  adjusted_p: Num;
  verdict: string;
  sentence: string;
  needs?: string;
}

export interface ExperimentRow {
  setting: string;
  query?: string;
  tenant?: string;
  against: string;
  /** main or interaction of a factorial design's effects. */
  effect?: string;
  rounds: number;
  requests: number;
  verdict: string;
  lead: string;
  measures: List<ExperimentMeasure>;
}

export interface ExperimentRun {
  round: number;
  order: number;
  setting: string;
  start: Num;
  end: Num;
  valid: boolean;
  why?: string;
  warm_up?: WarmUp;
  figures: Record<string, Record<string, Num>> | null;
}

export interface ExperimentCurve {
  query: string;
  measure: string;
  lower: boolean;
  points: List<{ setting: string; x: Num; value: Num; low: Num; high: Num; best_in: Num }>;
  best: string;
  candidates: List<string>;
  x_low: Num;
  x_high: Num;
  sentence: string;
}

export interface ExperimentSetting {
  name: string;
  control: boolean;
  values: Record<string, string> | null;
  x: Num;
  session?: string;
}

export interface Experiment {
  name: string;
  hypothesis: string;
  service: string;
  design: string;
  variable: string;
  unit?: string;
  settings: List<ExperimentSetting>;
  seed: number;
  start: Num;
  end: Num;
  stopping: { rule: string; at_least: number; at_most: number; precision: Num; measure: string; level: Num; planned: number; done: number; why: string };
  environment: Environment;
  file: string;
  files: Record<string, string> | null;
  command: string;
  again?: string;
  rounds: List<ExperimentRun>;
  rows: List<ExperimentRow>;
  curves: List<ExperimentCurve>;
  loads: List<BenchLoad>;
  events: List<BenchEvent>;
  progress?: string;
  restored: boolean;
  restore_error?: string;
  failed?: string;
  verdict: string;
  headline: string;
  warnings: List<CompareWarning>;
  gate?: { baseline: string; passed: boolean; allowed: Num; why: List<string> };
}
