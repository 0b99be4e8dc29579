// The JSON of marks and of services with the last of theirs, as api/api.go declares it.

import type { Num, Range } from './types';
import type { CompareMeasure, CompareRow, CompareWarning } from './verdict';

/** The JSON of a mark's verdict, as api/api.go declares it. */
export interface MarkVerdict {
  state: 'waiting' | 'early' | 'final';
  judged: Num;
  next: Num;
  window: number;
  verdict?: string;
  sentence?: string;
  services: ServiceVerdict[] | null;
}

export interface ServiceVerdict {
  service: string;
  verdict: string;
  sentence: string;
  before: Range;
  after: Range;
  measures: CompareMeasure[] | null;
  operations: CompareRow[] | null;
  warnings: CompareWarning[] | null;
}

export interface Service {
  name: string;
  requests: number;
  rate: Num; // per second
  errors: number;
  error_ratio: Num; // 0..1
  apdex: Num;
  apdex_t: Num;
  mean: Num;
  quantiles: Record<string, Num>;
  error: Num; // relative error of the quantiles
  sparkline: { rate: Num[]; p95: Num[] };
  weighted?: boolean;
  /** The last one before the end of the range, with its verdict on the service. */
  latest_mark?: Mark;
}

export interface ServicesResponse extends Range {
  step: number;
  services: Service[] | null;
}

export interface Mark {
  id?: string;
  time?: Num;
  name: string;
  service?: string;
  revision?: string;
  user?: string;
  description?: string;
  link?: string;
  verdict?: MarkVerdict;
}
