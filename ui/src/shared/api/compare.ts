// The JSON of GET /api/v1/compare, as api/compare.go declares it.

import type { Num, Range } from './types';
import type { CompareMeasure, CompareRow, CompareWarning } from './verdict';
import type { Mark } from './marks';

export interface CompareSide extends Range {
  name: string;
  slots: number;
  requests: number;
  errors: number;
  rate: Num;
  /** Earlier days that make the side, the last one first; the range is that of the last. */
  days?: Range[];
}

export interface CompareWhole {
  test: string;
  p: Num;
  resamples: number;
  block: number;
  verdict: string;
  sentence: string;
}

export interface CompareCurve {
  like_for_like: boolean;
  values: Num[] | null;
  a: Num[] | null;
  b: Num[] | null;
  ps: Num[] | null;
  quantiles_a: Num[] | null;
  quantiles_b: Num[] | null;
  ratio: Num[] | null;
  low: Num[] | null;
  high: Num[] | null;
}

export interface CompareHeatColumn {
  side: 'a' | 'b';
  start: number;
  requests: number;
  rows: number[] | null;
  differences: Num[] | null;
}

export interface CompareHeat {
  expected: 'slot' | 'side';
  step: number;
  bounds: Num[] | null;
  columns: CompareHeatColumn[] | null;
  max: Num;
}

export interface CompareResponse {
  family: string;
  of: string;
  a: CompareSide;
  b: CompareSide;
  mark?: Mark;
  label?: string;
  paired: boolean;
  slot: number;
  level: number;
  within: number;
  verdict: string;
  sentence: string;
  measures: CompareMeasure[] | null;
  covered: Num;
  strata: number;
  strata_by: string[] | null;
  operations: CompareRow[] | null;
  tenants: CompareRow[] | null;
  warnings: CompareWarning[] | null;
  unit?: string;
  per?: string;
  live?: boolean;
  whole?: CompareWhole;
  curve?: CompareCurve;
  heat?: CompareHeat;
}
