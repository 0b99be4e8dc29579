// The JSON of GET /api/v1/compare, as api/compare.go declares it.

import type { Mark, Num, Range } from './types';

export interface CompareSide extends Range {
  name: string;
  slots: number;
  requests: number;
  errors: number;
  rate: Num;
  /** Earlier days that make the side, the last one first; the range is that of the last. */
  days?: Range[];
}

export interface CompareFigure {
  a: Num;
  b: Num;
  effect: Num;
  low: Num;
  high: Num;
  p: Num;
  verdict: string;
  error: Num;
  short?: string;
  needed: Num;
  needed_seconds: Num;
}

export interface CompareMeasure {
  name: string;
  scale: 'ratio' | 'difference';
  raw: CompareFigure;
  like_for_like?: CompareFigure;
  verdict: string;
  change?: 'better' | 'worse' | '';
  adjusted_p: Num;
  sentence: string;
}

export interface CompareRow {
  service?: string;
  operation?: string;
  tenant?: string;
  requests_a: number;
  requests_b: number;
  mean_a?: Num;
  mean_b?: Num;
  measures: CompareMeasure[] | null;
  adjusted_p: Num;
  changed: boolean;
}

export interface CompareWarning {
  code: string;
  text: string;
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
