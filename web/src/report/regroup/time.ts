// Tables about stretches of time: measures, idleness, gaps, steps, and collectives with what hides them.
import { gapsOf, MEASURES, measure, workOf } from "../data/measures";
import type { Table } from "../data/table";
import type { Selection } from "../selection";
import { columnsOf, finished, shares, sumsOf, US, type Columns, type Maker } from "./sums";

/** Some rows of a table that is about moments: those whose time is in the selection. */
export const byTime =
  (note: string, endMs: (table: Table, row: number) => number): Maker =>
  (whole, _, selection) => {
    const start = whole.column("start_ms").values;
    const rows = Array.from({ length: whole.rows }, (_, row) => row).filter((row) => {
      return touches(selection, start[row] * 1e6, endMs(whole, row) * 1e6);
    });
    return whole.pick(rows).noted(note);
  };

export const steps: Maker = (whole, scene, selection) => {
  const chosen = new Set(Array.from(selection.events, (event) => scene.data.step[scene.data.gpuRow[event]]));
  // Without GPU work a step is where the host was in it.
  if (!scene.hasGpu) for (const { step, start, end } of scene.steps) if (touches(selection, start, end)) chosen.add(step);
  const step = whole.column("step").values;
  return whole.pick(Array.from({ length: whole.rows }, (_, row) => row).filter((row) => chosen.has(step[row])));
};

function touches(selection: Selection, from: number, to: number): boolean {
  return selection.windows.some(([first, last]) => to > first && from < last);
}

export const timeline: Maker = (whole, scene, selection) => {
  const device = whole.column("device");
  const name = whole.column("measure");
  const time_ms = new Float64Array(whole.rows);
  const percent = new Float64Array(whole.rows);
  for (let row = 0; row < whole.rows; row++) {
    const gpu = whole.textOf(device, row);
    const measures = measure(workOf(scene, gpu === "all" ? null : Number(gpu)), selection.windows);
    const ns = measures[whole.textOf(name, row) as (typeof MEASURES)[number]];
    time_ms[row] = ns / 1e6;
    percent[row] = measures.total ? (100 * ns) / measures.total : 0;
  }
  return whole.with({ time_ms, percent });
};

export const idle: Maker = (whole, scene, selection) => {
  const rowOfKey = new Map<string, number>();
  for (let row = 0; row < whole.rows; row++) rowOfKey.set(`${whole.text("device", row)} ${whole.text("cause", row)}`, row);
  const count = new Float64Array(whole.rows);
  const ns = new Float64Array(whole.rows);
  const ofGpu = new Map<number, number>();
  for (const gap of gapsOf(scene)) {
    const row = rowOfKey.get(`${gap.gpu} ${gap.cause}`);
    for (const [from, to] of selection.windows) {
      const inside = Math.min(gap.end, to) - Math.max(gap.start, from);
      if (inside <= 0 || row === undefined) continue;
      count[row]++;
      ns[row] += inside;
      ofGpu.set(gap.gpu, (ofGpu.get(gap.gpu) ?? 0) + inside);
    }
  }
  const covered = selection.windows.reduce((sum, [from, to]) => sum + to - from, 0);
  const columns: Columns = {
    count,
    total_us: ns.map((time) => time / US),
    percent_of_idle: ns.map((time, row) => (100 * time) / (ofGpu.get(Number(whole.text("device", row))) || 1)),
    percent: shares(ns, covered),
  };
  const regrouped = whole.with(columns);
  const rows = Array.from({ length: whole.rows }, (_, row) => row).filter((row) => count[row] > 0);
  return regrouped.pick(rows.sort((a, b) => regrouped.number("device", a) - regrouped.number("device", b) || ns[b] - ns[a]));
};

export const comm: Maker = (whole, scene, selection) => {
  const rowOf = scene.data.members["comm"];
  const sums = sumsOf(rowOf, whole.rows, scene, selection);
  const exposed = new Float64Array(whole.rows);
  const { gpuRow, gpu, start, duration } = scene.data;
  for (const event of selection.events) {
    if (rowOf[event] < 0) continue;
    const row = gpuRow[event];
    const { computation } = workOf(scene, gpu[event]);
    exposed[rowOf[event]] += duration[row] - coveredBy(computation, start[row], start[row] + duration[row]);
  }
  const columns = columnsOf(sums);
  const bytes = whole.column("message_bytes").values;
  const [before, onLinks] = [whole.column("algbw_gbps").values, whole.column("busbw_gbps").values];
  const algbw = columns["mean_us"].map((us, row) => bytes[row] / us / US);
  columns["exposed_us"] = exposed.map((ns) => ns / US);
  columns["algbw_gbps"] = algbw.map((rate, row) => (Number.isNaN(before[row]) ? NaN : rate));
  columns["busbw_gbps"] = algbw.map((rate, row) => (before[row] ? (rate * onLinks[row]) / before[row] : NaN));
  return finished(whole, columns, "total_us", sums.count);
};

function coveredBy({ starts, ends }: { starts: Float64Array; ends: Float64Array }, from: number, to: number): number {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] <= from) low = middle + 1;
    else high = middle;
  }
  let sum = 0;
  for (let i = low; i < starts.length && starts[i] < to; i++) sum += Math.min(ends[i], to) - Math.max(starts[i], from);
  return sum;
}
