// Tables with one row per group of GPU events.
import type { Table } from "../data/table";
import { columnsOf, finished, shares, sumsOf, US, type Columns, type Maker } from "./sums";

export const byEvents: Maker = (whole, scene, selection) => {
  const sums = sumsOf(scene.data.members[whole.name], whole.rows, scene, selection);
  return finished(whole, columnsOf(sums), whole.has("total_us") ? "total_us" : "kernel_us", sums.count);
};

/** The most frequent first, as the table has it. */
export const shortKernels: Maker = (whole, scene, selection) => {
  const sums = sumsOf(scene.data.members[whole.name], whole.rows, scene, selection);
  const rows = Array.from({ length: whole.rows }, (_, row) => row).filter((row) => sums.count[row] > 0);
  rows.sort((a, b) => sums.count[b] - sums.count[a] || sums.ns[b] - sums.ns[a] || a - b);
  return whole.with(columnsOf(sums)).pick(rows);
};

export const launchCategories: Maker = (whole, scene, selection) => {
  const sums = sumsOf(scene.data.members[whole.name], whole.rows, scene, selection);
  const op = whole.column("op").values;
  const ofOp = new Map<number, number>();
  sums.ns.forEach((ns, row) => ofOp.set(op[row], (ofOp.get(op[row]) ?? 0) + ns));
  const percent_of_op = sums.ns.map((ns, row) => (100 * ns) / (ofOp.get(op[row]) || 1));
  const regrouped = whole.with({ ...columnsOf(sums), percent_of_op });
  const rows = Array.from({ length: whole.rows }, (_, row) => row).filter((row) => sums.count[row] > 0);
  const weight = (row: number): number => ofOp.get(op[row]) ?? 0;
  return regrouped.pick(rows.sort((a, b) => weight(b) - weight(a) || op[a] - op[b] || sums.ns[b] - sums.ns[a]));
};

export const phases: Maker = (whole, scene, selection, tables) => {
  const regrouped = byEvents(whole, scene, selection, tables);
  // From the first to the last event of whole optimizer steps: a part of the trace may hold a part of one.
  return regrouped.with({ span_us: new Float64Array(regrouped.rows).fill(NaN) });
};

export const durations: Maker = (whole, scene, selection) => {
  const from = whole.column("from_us").values;
  const bucket = new Int32Array(scene.data.gpuRow.length);
  scene.data.gpuRow.forEach((row, event) => {
    const us = scene.data.duration[row] / US;
    let number = from.length - 1;
    while (number > 0 && from[number] > us) number--;
    bucket[event] = number;
  });
  return whole.with(columnsOf(sumsOf(bucket, whole.rows, scene, selection)));
};

/** The pass that an event of a module or line belongs to, as `members` numbers them; the optimizer is in neither. */
const [FORWARD, BACKWARD] = [0, 1];

export const contexts: Maker = (whole, scene, selection) => {
  const rowOf = scene.data.members[whole.name];
  const passOf = scene.data.members[`${whole.name}.backward`];
  const sums = sumsOf(rowOf, whole.rows, scene, selection);
  const passes = [FORWARD, BACKWARD].map(() => new Float64Array(whole.rows));
  for (const event of selection.events) {
    const pass = passes[passOf[event]] as Float64Array | undefined;
    if (rowOf[event] >= 0 && pass) pass[rowOf[event]] += scene.data.duration[scene.data.gpuRow[event]];
  }
  const inUs = (ns: Float64Array): Float64Array => ns.map((time) => time / US);
  const columns: Columns = { ...columnsOf(sums), forward_us: inUs(passes[FORWARD]), backward_us: inUs(passes[BACKWARD]) };
  if (!whole.has("subtree_kernel_us")) return finished(whole, columns, "kernel_us", sums.count);
  const subtree = withInner(whole, sums.ns);
  columns["subtree_kernel_us"] = inUs(subtree);
  columns["subtree_forward_us"] = inUs(withInner(whole, passes[FORWARD]));
  columns["subtree_backward_us"] = inUs(withInner(whole, passes[BACKWARD]));
  columns["subtree_percent"] = shares(subtree, sums.totalNs);
  return finished(whole, columns, "subtree_kernel_us", subtree);
};

/** Each module's own time plus that of the modules inside it, by their paths. */
function withInner(modules: Table, ns: Float64Array): Float64Array {
  const path = modules.column("module");
  const rowOf = new Map<string, number>();
  for (let row = 0; row < modules.rows; row++) rowOf.set(modules.textOf(path, row), row);
  const sums = new Float64Array(modules.rows);
  for (const [text, row] of rowOf) {
    const parts = text.split("/");
    for (let depth = 1; depth <= parts.length; depth++) {
      const outer = rowOf.get(parts.slice(0, depth).join("/"));
      if (outer !== undefined) sums[outer] += ns[row];
    }
  }
  return sums;
}
