// What shows a run of load, by the report that its experiment holds: each a
// script of its own.

import type { Run } from './experiments/experiments';
import { benchSheets } from './load/bench';
import { capacitySheets } from './load/capacity';
import { sheetsCsv } from './load/sheets';
import { simulationSheets } from './load/simulation';
import { curvesSheet, roundsSheet, rowsSheet } from './load/trial';
import type { Experiment } from './shared/api/experiments';

const bench = () => import('./load/BenchRun.svelte');
const trial = () => import('./load/TrialRun.svelte');
const capacity = () => import('./load/CapacityRun.svelte');
const simulation = () => import('./load/SimulationRun.svelte');

/** The run that an experiment reports; undefined of a session. */
export function runOf(e: Experiment): Run | undefined {
  const { bench: b, trial: t, capacity: c, simulation: s } = e;
  if (c) return { what: 'The search for capacity', show: capacity, report: { c }, csv: () => sheetsCsv(capacitySheets(c)) };
  if (s) return { what: 'The simulation', show: simulation, report: { s }, csv: () => sheetsCsv(simulationSheets(s)) };
  if (b) return { what: 'The run', show: bench, report: { b }, csv: () => sheetsCsv(benchSheets(b)) };
  if (t) return { what: 'The experiment', show: trial, report: { t }, csv: () => sheetsCsv([curvesSheet(t), rowsSheet(t), roundsSheet(t, t.stopping.measure || 'p99')]) };
  return undefined;
}
