// One step against another of the same trace: what each kernel, op, category or module took in both.
import type { App } from "../app";
import { regroup } from "../regroup/index";
import { ofSteps, stepWindows } from "../selection";
import { GROUPINGS, type Grouping } from "./groupings";
import { measure, workOf } from "./measures";
import type { Scene } from "./scene";
import type { Table } from "./table";

export interface StepChange {
  name: string;
  /** Kernel category, "" where there is none. */
  category: string;
  a: number;
  b: number;
  aCount: number;
  bCount: number;
  /** The table that it is from, and its row there. */
  table: string;
  row: number;
}
export interface StepTimes {
  total: number;
  busy: number;
  idle: number;
}

interface Source {
  table: string;
  name: string;
  value: string;
}
const SOURCES: Record<Grouping, Source> = {
  kernel: { table: "kernels", name: "kernel_short", value: "total_us" },
  op: { table: "ops", name: "op", value: "kernel_us" },
  category: { table: "kernel_categories", name: "kernel_category", value: "total_us" },
  module: { table: "modules", name: "module", value: "kernel_us" },
};

const IDLE: Source = { table: "idle", name: "cause", value: "total_us" };

function sourceOf(app: App, by: Grouping): Source {
  const source = SOURCES[by];
  return by === "op" && !app.scene?.hasGpu ? { ...source, value: "cpu_self_us" } : source;
}

/** The groupings that this trace has rows for; without GPU work only ops take time. */
export function groupingsOf(app: App): Grouping[] {
  const usable = app.scene?.hasGpu ? GROUPINGS : (["op"] as const);
  return usable.filter((by) => app.hasTable(SOURCES[by].table) && app.wholeTable(SOURCES[by].table).rows > 0);
}

/** Times in ns, the GPU's idle time by cause among them; the largest difference first. */
export function stepChanges(app: App, a: number, b: number, by: Grouping): StepChange[] {
  const changes = changesIn(app, a, b, sourceOf(app, by));
  const merged = by === "kernel" ? mergedByName(changes) : changes;
  const idle = app.scene?.hasGpu && app.hasTable("idle") ? mergedByName(changesIn(app, a, b, IDLE)) : [];
  const all = [...merged, ...idle.map((change) => ({ ...change, name: `idle: ${change.name}` }))];
  return all.sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a) || y.b - x.b);
}

function changesIn(app: App, a: number, b: number, { table, name, value }: Source): StepChange[] {
  const whole = app.wholeTable(table);
  const sums = [a, b].map((step) => sumsOf(app, whole, step, value));
  const rows = [...new Set(sums.flatMap(({ ns }) => [...ns.keys()]))];
  return rows.map((row): StepChange => {
    const of = (side: number): [number, number] => [sums[side].ns.get(row) ?? 0, sums[side].count.get(row) ?? 0];
    const [[aNs, aCount], [bNs, bCount]] = [of(0), of(1)];
    const category = whole.has("kernel_category") ? whole.text("kernel_category", row) : "";
    return { name: whole.text(name, row) || "(none)", category, a: aNs, b: bNs, aCount, bCount, table, row };
  });
}

/** The same kernel from several ops or streams, or cause on several GPUs, is one line. */
function mergedByName(changes: StepChange[]): StepChange[] {
  const byName = new Map<string, StepChange>();
  for (const change of changes) {
    const known = byName.get(change.name);
    if (!known) byName.set(change.name, { ...change });
    else for (const key of ["a", "b", "aCount", "bCount"] as const) known[key] += change[key];
  }
  return [...byName.values()];
}

function sumsOf(app: App, whole: Table, step: number, value: string): { ns: Map<number, number>; count: Map<number, number> } {
  const selection = ofSteps(app.scene!, new Set([step]));
  const table = regroup(whole, app.scene!, selection, (name) => (app.hasTable(name) ? app.wholeTable(name) : undefined));
  const [ns, count] = [new Map<number, number>(), new Map<number, number>()];
  for (let row = 0; row < table.rows; row++) {
    ns.set(table.originOf(row), 1e3 * table.number(value, row));
    count.set(table.originOf(row), table.has("count") ? table.number("count", row) : NaN);
  }
  return { ns, count };
}

/** The last step, which no next one ends: what the GPU idles after its work is not known. Null where the host ends each. */
export function endlessStep(scene: Scene): number | null {
  if (!scene.hasGpu) return null;
  const windows = stepWindows(scene);
  return windows.reduce((last, window) => (window.from > last.from ? window : last), windows[0] ?? { step: null, from: 0 }).step;
}

export function stepTimes(app: App, step: number): StepTimes {
  const { windows } = ofSteps(app.scene!, new Set([step]));
  const { total, busy, idle } = measure(workOf(app.scene!, null), windows);
  return { total, busy, idle };
}

/** The steps to compare unless others are chosen: the middle one by time, and the slowest; the one without an end of its
 *  own (null: none) only where there are no two others. */
export function usualSteps(times: readonly { step: number; ms: number }[], endless: number | null = null): [number, number] | null {
  if (times.length < 2) return null;
  const ended = times.filter(({ step }) => step !== endless);
  const sorted = [...(ended.length > 1 ? ended : times)].sort((x, y) => x.ms - y.ms);
  const slowest = sorted[sorted.length - 1].step;
  return [sorted[(sorted.length - 1) >> 1].step, slowest];
}
