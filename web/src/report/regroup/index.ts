// Tables for a part of the trace: made again from the GPU events of the selection, by the rules of analyses/.
import type { Scene } from "../data/scene";
import { Table } from "../data/table";
import type { Selection } from "../selection";
import { coverage, family, opShapes, roofline, transfer } from "./calls";
import { byEvents, contexts, durations, launchCategories, phases, shortKernels } from "./events";
import { ops } from "./host";
import type { Maker, Tables } from "./sums";
import { byTime, comm, idle, steps, timeline } from "./time";

const GAPS_NOTE =
  "gaps in the selected time; a step's time reaches to the next step's first kernel, so the gap between two steps is in the first, while the column step names the step of the event that ended it";

const MAKERS: Record<string, Maker> = {
  timeline,
  kernel_categories: byEvents,
  kernels: byEvents,
  launch_categories: launchCategories,
  ops,
  op_shapes: opShapes,
  roofline,
  gemm: family,
  attention: family,
  convolution: family,
  norm: family,
  transfer,
  cost_coverage: coverage,
  launches: byEvents,
  phases,
  modules: contexts,
  python_lines: contexts,
  steps,
  idle,
  gaps: byTime(GAPS_NOTE, (table, row) => table.number("start_ms", row) + table.number("gap_us", row) / 1e3),
  short_kernels: shortKernels,
  kernel_durations: durations,
  activity: byTime("", (table, row) => table.number("end_ms", row)),
  comm,
};

/** The table for the selection; one that events cannot divide stays whole and says so. */
export function regroup(whole: Table, scene: Scene, selection: Selection, tables: Tables): Table {
  if (selection.whole) return whole;
  const make = MAKERS[whole.name];
  return make ? make(whole, scene, selection, tables) : new Table(whole, whole.texts, false);
}
