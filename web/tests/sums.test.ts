import { expect, test } from "vitest";
import type { Scene } from "../src/report/data/scene";
import { callsOf, columnsOf, shares, sumsOf } from "../src/report/regroup/sums";
import type { Selection } from "../src/report/selection";

/** Five GPU events: start, duration and step of each. */
const EVENTS = [
  [0, 100, 0],
  [50, 100, 0],
  [200, 300, 1],
  [600, 50, -1],
  [700, 10, 1],
];
const column = (at: number): Float64Array => Float64Array.from(EVENTS, (event) => event[at]);
const scene = {
  data: { gpuRow: Int32Array.from(EVENTS, (_, row) => row), start: column(0), duration: column(1), step: Int32Array.from(column(2)) },
} as unknown as Scene;
const selected = (...events: number[]): Selection => ({ events: Uint32Array.from(events) }) as unknown as Selection;

test("every selected event is in the sum of its row; events of no row count in the total only", () => {
  const sums = sumsOf(Int32Array.from([0, 0, 1, 1, -1]), 2, scene, selected(0, 1, 2, 3, 4));
  expect([...sums.count]).toEqual([2, 2]);
  expect([...sums.ns]).toEqual([200, 350]);
  expect([...sums.stepNs]).toEqual([200, 300]);
  expect([...sums.minNs]).toEqual([100, 50]);
  expect([...sums.maxNs]).toEqual([100, 300]);
  expect(sums.totalNs).toBe(560);
});

test("columns are in µs, and shares are of all that is selected", () => {
  const columns = columnsOf(sumsOf(Int32Array.from([0, 0, 0, 0, 1]), 2, scene, selected(0, 4)));
  expect([...columns["total_us"]]).toEqual([0.1, 0.01]);
  expect([...columns["mean_us"]]).toEqual([0.1, 0.01]);
  expect([...columns["percent"]]).toEqual([(100 * 100) / 110, (100 * 10) / 110]);
});

test("a share of nothing is nothing", () => {
  expect([...shares(Float64Array.from([0, 0]), 0)]).toEqual([0, 0]);
});

test("a call's union counts overlapping events once", () => {
  const calls = callsOf(Int32Array.from([0, 0, 1, 1, 1]), Int32Array.from([7, 7, 8, 9, 9]), scene, selected(0, 1, 2, 3, 4));
  expect(calls).toEqual({ row: [0, 1, 1], ns: [200, 300, 60], unionNs: [150, 300, 60] });
});
