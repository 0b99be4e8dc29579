// What shows a run of load, by the report that its session holds: each a
// script of its own.

import type { Run } from './sessions/sessions';
import { benchSheets } from './load/bench';
import { capacitySheets } from './load/capacity';
import { sheetsCsv } from './load/sheets';
import { simulationSheets } from './load/simulation';
import { curvesSheet, roundsSheet, rowsSheet } from './load/experiment';
import type { Session } from './shared/api/schema';

const bench = () => import('./load/BenchRun.svelte');
const experiment = () => import('./load/ExperimentRun.svelte');
const capacity = () => import('./load/CapacityRun.svelte');
const simulation = () => import('./load/SimulationRun.svelte');

/** The run that a session reports; undefined of one of the mirror. */
export function runOf(e: Session): Run | undefined {
  const { bench: b, experiment: t, capacity: c, simulation: s } = e;
  if (c) return { what: 'The search for capacity', show: capacity, report: { c }, csv: () => sheetsCsv(capacitySheets(c)) };
  if (s) return { what: 'The simulation', show: simulation, report: { s }, csv: () => sheetsCsv(simulationSheets(s)) };
  if (b) return { what: 'The run', show: bench, report: { b }, csv: () => sheetsCsv(benchSheets(b)) };
  if (t) return { what: 'The experiment', show: experiment, report: { t }, csv: () => sheetsCsv([curvesSheet(t), rowsSheet(t), roundsSheet(t, t.stopping.measure || 'p99')]) };
  return undefined;
}
