// The JSON of /api/v1/sessions, as api/sessions.go declares it.

import type { Capacity } from './capacity';
import type { Simulation } from './simulation';
import type { BenchResult, Experiment } from './load';
import type { Num, Range, Counts } from './types';
import type { CompareWarning } from './verdict';

export interface SessionsResponse extends Range {
  total?: number;
  sessions: Session[] | null;
}

export interface Session {
  id: string;
  kind: string;
  name: string;
  service: string;
  start: Num;
  end: Num; // null while it runs
  updated: Num;
  state: string; // running, ended, lost
  headline?: string;
  mirror?: MirrorState;
  bench?: BenchResult;
  experiment?: Experiment;
  capacity?: Capacity;
  simulation?: Simulation;
  /** What of its report was too long to keep. */
  cut?: string[];
  /** What is wanted changed and not applied yet. */
  change?: MirrorChange;
}

export interface MirrorState {
  mode: string; // http or tcp
  listen: string;
  primary: MirrorTarget;
  shadows: MirrorTarget[] | null;
  requests: number;
  skipped: Counts;
  failed: Counts;
  applied: number;
  settings: { share: Num; paused: boolean };
  differences?: MirrorDifferences;
  recording?: MirrorRecording;
  clients?: { open: number; bound: number; evicted: number; refused: number };
}

export interface MirrorTarget {
  name: string;
  role: string; // primary, control, candidate
  servers: MirrorServer[] | null;
  using: number;
  amplify: Num;
  account?: MirrorAccount;
  diverged: Num;
  diverged_why?: string;
}

export interface MirrorServer {
  url: string;
  connections: number;
  down?: string;
}

/** offered = queued + dropped + mirrored; mirrored = waiting + failed + answered; answered = pairing + paired + unpaired. */
export interface MirrorAccount {
  offered: number;
  queued: number;
  dropped: Counts;
  mirrored: number;
  waiting: number;
  failed: Counts;
  answered: number;
  pairing: number;
  paired: number;
  unpaired: number;
  buffered: number;
  buffer_bound: number;
}

export interface MirrorChange {
  number?: number;
  share?: Num;
  paused?: boolean;
  shadows?: Record<string, { using?: number; amplify?: Num }>;
  stop?: boolean;
}

export interface MirrorRecording {
  path: string;
  requests: number;
  dropped: number;
  bytes: number;
  error?: string;
}

export interface MirrorDifferences {
  compared: number;
  skipped: Counts;
  rows: MirrorDifference[] | null;
  examples: MirrorExample[] | null;
}

export interface MirrorDifference {
  shadow: string;
  operation: string;
  place: string;
  compared: number;
  raw: number;
  noise: Num; // null without a control
  noise_of: number;
  p: Num;
  real: boolean;
}

export interface MirrorExample {
  id: string;
  time: Num;
  shadow: string;
  operation: string;
  tenant?: string;
  request: string;
  places: { place: string; reference: string; shadow: string }[] | null;
}

export interface MirrorVerdictResponse extends Range {
  id: string;
  slot: number;
  level: Num;
  /** Intervals hold at every look, as they do while it runs. */
  live: boolean;
  slots: number;
  candidates: MirrorVerdict[] | null;
  warnings: CompareWarning[] | null;
}

export interface MirrorVerdict {
  candidate: string;
  against: string;
  caveat?: string;
  verdict: string;
  headline: string;
  requests: number;
  measures: MirrorMeasure[] | null;
  operations: MirrorRow[] | null;
  tenants: MirrorRow[] | null;
  operations_judged: number;
  tenants_judged: number;
}

/** Effects and floors are ratios; those of errors are differences. */
export interface MirrorMeasure {
  name: string;
  reference: Num;
  candidate: Num;
  effect: Num;
  low: Num;
  high: Num;
  floor: Num;
  floor_low: Num;
  floor_high: Num;
  /** How far an effect must be from none, as a share (0.03: from 1/1.03 to 1.03); of errors a difference. */
  noise: Num;
  p: Num;
  adjusted_p: Num;
  verdict: string;
  sentence: string;
  /** Quantiles of the ratios of all requests, of the ratio alone. */
  points?: { quantile: Num; ratio: Num; low: Num; high: Num }[];
}

export interface MirrorRow {
  name: string;
  requests: number;
  verdict: string;
  lead: string;
  measures: MirrorMeasure[] | null;
}
