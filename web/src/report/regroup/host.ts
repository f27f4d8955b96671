// The table `ops`: the host's side comes from the calls, the GPU's from what they launched.
import { opCalls } from "../data/host";
import { NONE } from "../data/scene";
import { callsOf, columnsOf, finished, sumsOf, US, type Columns, type Maker } from "./sums";

export const ops: Maker = (whole, scene, selection) => {
  const rowOf = scene.data.members["ops"];
  const sums = sumsOf(rowOf, whole.rows, scene, selection);
  const { rows, around, recursive, selfNs } = opCalls(scene);
  const rowOfName = new Map<number, number>();
  whole.column("op").values.forEach((text, row) => rowOfName.set(text, row));
  const { label, duration, gpuRow, launch } = scene.data;
  const rowOfLabel = scene.data.header.labels.name.map((text) => rowOfName.get(text) ?? NONE);
  const count = new Float64Array(whole.rows);
  const replayed = new Float64Array(whole.rows);
  const replayedInAll = whole.column("replayed_calls").values;
  const cpu = new Float64Array(whole.rows);
  const self = new Float64Array(whole.rows);
  const subtree = new Float64Array(whole.rows);
  for (const call of rows) {
    const row = rowOfLabel[label[call]];
    if (row < 0 || !selection.hasHost(call)) continue;
    count[row]++;
    if (replayedInAll[row] && !scene.isTimed(call)) replayed[row]++;
    self[row] += selfNs[call] / US;
    if (!recursive[call]) cpu[row] += duration[call] / US;
  }
  for (const event of selection.events) {
    const from = launch[event];
    if (from < 0) continue;
    for (let at = scene.kind(from) === "op" ? from : around[from]; at >= 0; at = around[at]) {
      if (!recursive[at] && rowOfLabel[label[at]] >= 0) subtree[rowOfLabel[label[at]]] += duration[gpuRow[event]] / US;
    }
  }
  // Launches outside any op have no calls of their own: what launched is counted.
  const launchers = callsOf(rowOf, scene.data.owner, scene, selection);
  const launches = new Float64Array(whole.rows);
  launchers.row.forEach((row) => launches[row]++);
  const columns: Columns = {
    ...columnsOf(sums),
    count: count.map((calls, row) => calls || launches[row]),
    cpu_us: cpu,
    cpu_self_us: self,
    replayed_calls: replayed,
    subtree_kernel_us: subtree.map((us, row) => Math.max(us, sums.ns[row] / US)),
  };
  return finished(whole, columns, "kernel_us", columns["count"]);
};
