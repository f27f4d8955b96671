// What the makers of tables share: sums of the selected GPU events over the rows they belong to.
import { length, union } from "../data/intervals";
import type { Scene } from "../data/scene";
import type { Table } from "../data/table";
import type { Selection } from "../selection";

export type Columns = Record<string, Float64Array>;
/** The report's tables by name. */
export type Tables = (name: string) => Table | undefined;
/** Makes a table anew for a part of the trace, given the whole one. */
export type Maker = (whole: Table, scene: Scene, selection: Selection, tables: Tables) => Table;

export const US = 1000;

export interface Sums {
  count: Float64Array;
  ns: Float64Array;
  minNs: Float64Array;
  maxNs: Float64Array;
  stepNs: Float64Array;
  totalNs: number;
}

/** Sums of the selected events over the rows they belong to. */
export function sumsOf(rowOf: Int32Array, rows: number, scene: Scene, selection: Selection): Sums {
  const sums: Sums = {
    count: new Float64Array(rows),
    ns: new Float64Array(rows),
    minNs: new Float64Array(rows).fill(Infinity),
    maxNs: new Float64Array(rows),
    stepNs: new Float64Array(rows),
    totalNs: 0,
  };
  const { gpuRow, duration, step } = scene.data;
  for (const event of selection.events) {
    const ns = duration[gpuRow[event]];
    sums.totalNs += ns;
    const row = rowOf[event];
    if (row < 0) continue;
    sums.count[row]++;
    sums.ns[row] += ns;
    sums.minNs[row] = Math.min(sums.minNs[row], ns);
    sums.maxNs[row] = Math.max(sums.maxNs[row], ns);
    if (step[gpuRow[event]] >= 0) sums.stepNs[row] += ns;
  }
  return sums;
}

export function columnsOf(sums: Sums): Columns {
  const us = sums.ns.map((ns) => ns / US);
  return {
    count: sums.count,
    total_us: us,
    kernel_us: us,
    mean_us: us.map((value, row) => value / sums.count[row]),
    min_us: sums.minNs.map((ns) => ns / US),
    max_us: sums.maxNs.map((ns) => ns / US),
    step_us: sums.stepNs.map((ns) => ns / US),
    percent: shares(sums.ns, sums.totalNs),
  };
}

export function shares(parts: Float64Array, whole: number): Float64Array {
  return parts.map((part) => (whole ? (100 * part) / whole : 0));
}

/** Rows that still have anything, the heaviest first. */
export function finished(table: Table, columns: Columns, by: string, alive: Float64Array): Table {
  const changed = table.with(columns);
  const weight = changed.column(by).values;
  const rows = Array.from({ length: table.rows }, (_, row) => row).filter((row) => alive[row] > 0);
  return changed.pick(rows.sort((a, b) => weight[b] - weight[a] || a - b));
}

export interface Calls {
  /** Per call that the selection touches: its row, the sum of its events and the time in which any ran. */
  row: number[];
  ns: number[];
  unionNs: number[];
}

/** The selected events call by call; events that share a number belong to one call. */
export function callsOf(rowOf: Int32Array, callOf: Int32Array, scene: Scene, selection: Selection): Calls {
  const { gpuRow, start, duration } = scene.data;
  const events = new Map<number, number[]>();
  for (const event of selection.events) {
    if (rowOf[event] < 0) continue;
    const ofCall = events.get(callOf[event]);
    if (ofCall) ofCall.push(event);
    else events.set(callOf[event], [event]);
  }
  const calls: Calls = { row: [], ns: [], unionNs: [] };
  for (const own of events.values()) {
    const rows = own.map((event) => gpuRow[event]);
    const ns = rows.reduce((sum, row) => sum + duration[row], 0);
    calls.row.push(rowOf[own[0]]);
    calls.ns.push(ns);
    calls.unionNs.push(rows.length > 1 ? length(union(rows, start, duration)) : ns);
  }
  return calls;
}
