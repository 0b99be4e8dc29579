// The JSON of /api/v1/checks and its neighbours, as api/checks.go declares it.

import type { Labels, Num, Range } from './types';

export interface ChecksResponse {
  checks: Check[] | null;
  total: number; // before limit and offset
  counts: Record<string, number> | null;
  receivers: CheckReceiver[] | null;
  /** Why the definitions on disk are not those that run. */
  problem?: string;
  /** Why states are not kept or receivers are not told. */
  trouble?: string;
  files: string[] | null;
  lag: Num;
  now: Num;
}

export interface Check {
  id: string;
  name: string;
  labels: Labels | null;
  description?: string;
  unit: string;
  source: string;
  schedule: string;
  state: string; // hard: OK, WARNING, CRITICAL, UNKNOWN, PENDING
  level: string; // of the last run
  soft: boolean;
  since: Num;
  last: Num;
  next: Num;
  value: Num;
  text: string;
  bands: CheckBands;
  flapping: boolean;
  quiet?: string;
  incident?: Incident;
  receivers: string[] | null;
}

/** What is not set is null. A value is bad strictly beyond them. */
export interface CheckBands {
  threshold: Num;
  low_critical: Num;
  low_warning: Num;
  high_warning: Num;
  high_critical: Num;
  rule?: string;
}

export interface CheckResponse extends Range {
  check: Check;
  definition: string;
  /** What its profile has learned, as YAML that a file of checks may hold. */
  learned?: string;
  file: string;
  expression?: string;
  null: string;
  threshold?: CheckThreshold;
  rules: CheckStates;
  step: number;
  points: CheckPoint[] | null;
  states: CheckState[] | null;
  value_steps?: CheckStep[] | null;
  threshold_steps?: CheckStep[] | null;
  incidents: Incident[] | null;
}

export interface CheckPoint {
  time: Num;
  value: Num;
  min: Num;
  max: Num;
  bands: CheckBands;
}

export interface CheckState {
  start: Num;
  end: Num; // null while it lasts
  state: string;
  soft: boolean;
  why?: string;
}

export interface Incident {
  id: string;
  kind: string; // check, marked
  check?: string;
  name?: string;
  service?: string;
  start: Num;
  end: Num; // null while it is open
  worst?: string;
  state?: string;
  value: Num;
  text: string;
  acked?: Ack;
  events?: IncidentEvent[] | null;
}

export interface IncidentEvent {
  seq: number;
  time: Num;
  kind: string; // opened, changed, acknowledged, resolved, flapping, steady
  from: string;
  to: string;
  text: string;
}

export interface Ack {
  user: string;
  comment: string;
  time?: Num;
  until: Num; // null: until the check is OK
}

export interface IncidentsResponse extends Range {
  incidents: Incident[] | null;
}

export interface Maintenance {
  id?: string;
  name: string;
  checks: string[] | null;
  match?: string;
  start: Num;
  end: Num;
  user?: string;
  active?: boolean;
  fixed?: boolean;
  when?: string;
}

export interface CheckReceiver {
  name: string;
  kind: string;
  to: string;
  state: string; // idle, delivering, waiting
  error?: string;
  next: Num;
  delivered: number;
  failed: number;
  spooled: number;
  dropped: Record<string, number> | null;
}

export interface CheckEvaluateResponse {
  value: Num;
  steps: CheckStep[] | null;
  points?: CheckPoint[] | null;
  truncated?: boolean;
}

export interface CheckStep {
  text: string;
  offset: number; // bytes
  depth: number;
  value: string;
  number: Num;
}

export interface CheckBacktest {
  check?: string;
  value?: string;
  threshold?: CheckThreshold;
  states?: CheckStates;
  start?: number;
  end?: number;
}

export interface CheckThreshold {
  must: string;
  of: string;
  warning?: string;
  critical?: string;
}

export interface CheckStates {
  bad?: string;
  good?: string;
}

export interface CheckBacktestResponse extends Range, BacktestFigures {
  runs: number;
  nulls: number;
  no_threshold: number;
  every: number;
  step: number;
  points: CheckPoint[] | null;
  states: CheckState[] | null;
  alarms: Alarm[] | null;
  incidents: BacktestIncident[] | null;
  truncated?: boolean;
  /** The check as it is: its alarms, and what held it at each of the points. */
  before?: BacktestFigures & { alarms: number; opened?: Alarm[] | null; bands?: CheckBands[] | null };
}

export interface BacktestFigures {
  found: number;
  missed: number;
  false: number;
  per_week: Num;
  bad_seconds: Num;
}

export interface Alarm {
  start: Num;
  end: Num;
  worst: string;
  value: Num;
  incident?: string;
}

export interface BacktestIncident extends Incident {
  found: boolean;
  after: Num;
}
