// The JSON of the HTTP API, as api/api.go declares it. Times are Unix seconds,
// durations seconds; null stands for NaN.

export type Num = number | null;
export type Labels = Record<string, string>;

export interface Range {
  start: number; // inclusive
  end: number; // exclusive
}

export interface At {
  value: Num;
  below: Num;
  same: Num;
  above: Num;
  low: Num;
  high: Num;
}

export interface Bucket {
  low: Num;
  high: Num;
  count: number;
}

export interface DistributionGroup {
  labels: Labels;
  count: number;
  sum: Num;
  mean: Num;
  min: Num;
  max: Num;
  quantiles: Record<string, Num> | null;
  error: Num;
  at?: At[];
  buckets?: Bucket[];
  weighted?: boolean;
}

export interface DistributionResponse extends Range {
  family: string;
  slot: number;
  groups: DistributionGroup[] | null;
}

export interface HeatmapColumn {
  start: number;
  count: number;
  sum: Num;
  min: Num;
  max: Num;
  rows: number[] | null;
  counts: number[] | null;
}

/** Row i covers (bounds[i], bounds[i+1]]; empty columns are left out. */
export interface HeatmapResponse extends Range {
  family: string;
  step: number;
  slot: number;
  error: Num;
  bounds: Num[] | null;
  columns: HeatmapColumn[] | null;
  count: number;
  max_cell: number;
}

export interface TimelineGroup {
  labels: Labels;
  count: number[] | null;
  rate: Num[] | null;
  mean: Num[] | null;
  error_ratio: Num[] | null;
  quantiles: Record<string, Num[]> | null;
  error: Num;
  value?: Num[];
}

export interface TimelineResponse extends Range {
  family: string;
  step: number;
  slot: number;
  offset?: number;
  slide?: number;
  times: number[] | null;
  groups: TimelineGroup[] | null;
}

export interface LabelValues {
  name: string;
  total: number;
  values: { value: string; count: number }[] | null;
}

export interface LabelsResponse {
  labels: LabelValues[] | null;
}

export interface Family {
  name: string;
  kind: 'distribution' | 'gauge' | 'counter';
  interval?: number;
  unit?: string;
}

/** What a tenant's row and a cohort's have in common. */
interface TenantFigures {
  name: string;
  requests: number;
  share: Num;
  errors: number;
  mean: Num;
  quantiles: Record<string, Num>;
  error: Num;
  in_bands: Num[] | null;
  slow_share: Num;
}

export interface Tenant extends TenantFigures {
  cohort?: string;
  size: Num;
  slow_low: Num;
  slow_high: Num;
  not_rare: boolean;
}

export interface TenantCohort extends TenantFigures {
  tenants: number;
  not_rare: number;
}

export interface TenantsResponse extends Range {
  total: number;
  tenants: Tenant[] | null;
  cohorts: TenantCohort[] | null;
  everyone: TenantCohort;
  bands: Num[] | null;
  slow: Num;
  rare: Num;
  cohorts_by: string;
}

export interface Status {
  version: string;
  otlp_grpc: string;
  otlp_http: string;
  now: Num;
  has_data: boolean;
  flush_seconds: Num;
  problems: Problem[];
}

/** How many reports of damage are over, and how many concern files that are still in place. */
export interface DamageAcknowledged {
  acknowledged: number;
  left: number;
}

/** Why the server is degraded. */
export interface Problem {
  code: string;
  summary: string;
  text: string;
  next: string;
  from: Num;
  to: Num;
}

/** How many of each, by name. */
export type Counts = Record<string, number> | null;
