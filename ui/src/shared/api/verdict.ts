// What a verdict is made of, as api/compare.go declares it.

import type { Num } from './types';

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
