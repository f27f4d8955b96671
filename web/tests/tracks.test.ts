import { expect, test } from "vitest";
import type { App } from "../src/report/app";
import { Table, type Column } from "../src/report/data/table";
import { arranged, moved } from "../src/report/views/timeline/arrangement";
import { Counter, countersOf, runsOfPixels } from "../src/report/views/timeline/counters";
import { layOut } from "../src/report/views/timeline/layout";

const tracks = ["gpu", "memory", "main", "loader"].map((key) => ({ key }));
const keys = (order: string[]): string[] => arranged(tracks, order).map(({ key }) => key);

test("tracks keep the reader's order, and those that it does not name their usual neighbours", () => {
  expect(keys([])).toEqual(["gpu", "memory", "main", "loader"]);
  expect(keys(["main", "gpu", "memory", "loader"])).toEqual(["main", "gpu", "memory", "loader"]);
  expect(keys(["main", "gpu", "gone"])).toEqual(["main", "loader", "gpu", "memory"]);
});

test("a track changes places with the next one that is shown in its part", () => {
  const all = ["gpu", "memory", "main", "loader"];
  expect(moved(all, "main", -1, () => true)).toEqual(["gpu", "main", "memory", "loader"]);
  expect(moved(all, "main", -1, (key) => key === "gpu")).toEqual(["main", "gpu", "memory", "loader"]);
  expect(moved(all, "gpu", -1, () => true)).toEqual(all);
  expect(moved(all, "gpu", 1, (key) => key === "loader")).toEqual(["memory", "main", "loader", "gpu"]);
});

function counter(starts: number[], ...series: number[][]): Counter {
  const named = series.map((values, at) => ({ name: String(at), colour: "", values: Float64Array.from(values) }));
  return new Counter("m.0", "Memory", Float64Array.from(starts), named, null, true, "bytes", "t", "", []);
}

test("a counter holds its value until the next row, and its peak is that of the sum", () => {
  const memory = counter([10, 20, 30], [1, 5, 0], [1, 1, 9]);
  expect([...memory.total]).toEqual([2, 6, 9]);
  expect(memory.peak).toBe(2);
  expect([9, 10, 19, 25, 99].map((time) => memory.rowAt(time))).toEqual([-1, 0, 0, 1, 2]);
  expect(memory.shown(2048)).toBe("2.00 KiB");
});

test("pixels show the largest value in them, and runs of the same row are one", () => {
  const memory = counter([0, 101, 102, 103, 500], [1, 2, 9, 3, 4]);
  expect(runsOfPixels(memory, 0, 100, 8)).toEqual([[0, 1, 0], [1, 2, 2], [2, 5, 3], [5, 8, 4]]); // prettier-ignore
  expect(runsOfPixels(memory, -200, 100, 4)).toEqual([[2, 3, 0], [3, 4, 2]]); // prettier-ignore
  expect(runsOfPixels(memory, 600, 100, 4)).toEqual([[0, 4, 4]]);
});

test("memory was held before its first change", () => {
  const starts = Float64Array.of(100, 300);
  const series = [{ name: "unknown", colour: "", values: Float64Array.of(5, 7) }];
  const memory = new Counter("m.0", "Memory", starts, series, null, true, "bytes", "t", "", [], true);
  expect(memory.rowAt(-50)).toBe(0);
  expect(runsOfPixels(memory, -100, 100, 5)).toEqual([[0, 4, 0], [4, 5, 1]]); // prettier-ignore
});

test("the mean of a queue is a line over the area of its maximum", () => {
  const columns = Object.entries({ start_ms: [0, 1], device: [0, 0], stream: [7, 7], length_mean: [0.1, 2.5], length_max: [1, 3] });
  const queue = new Table(
    {
      name: "queue_timeline",
      meaning: "",
      notes: [],
      rows: 2,
      columns: columns.map(([name, values]) => ({ name, unit: "", meaning: "", kind: "number", values: Float64Array.from(values) })),
    },
    [],
  );
  const [track] = countersOf({
    isDiff: false,
    data: { hasCorrected: false },
    hasTable: (name: string) => name === "queue_timeline",
    wholeTable: () => queue,
    palette: { shaded: (colour: string) => colour },
  } as unknown as App);
  expect([track.series.map(({ name }) => name), track.line?.name]).toEqual([["length max"], "length mean"]);
  expect([...track.line!.values]).toEqual([0.1, 2.5]);
  expect(track.end, "the last launch has begun").toBe(2e6);
});

test("where a counter ends nothing is drawn or read", () => {
  const series = [{ name: "length", colour: "", values: Float64Array.of(1, 3) }];
  const queue = new Counter("q.0", "Queue", Float64Array.of(0, 200), series, null, false, "", "t", "", [], false, true, [], "", 400);
  expect([0, 399, 400, 999].map((time) => queue.rowAt(time))).toEqual([0, 1, -1, -1]);
  expect(runsOfPixels(queue, 0, 100, 8)).toEqual([[0, 2, 0], [2, 4, 1]]); // prettier-ignore
  expect(runsOfPixels(queue, 500, 100, 8)).toEqual([]);
});

test("readings of a GPU are tracks with their own units, under the line of their limit; few are tall", () => {
  const texts = ["power", "temperature", "W", "°C"];
  const number = (name: string, values: number[]): Column => ({
    name,
    unit: "",
    meaning: "",
    kind: "number",
    values: Float64Array.from(values),
  });
  const text = (name: string, values: number[]): Column => ({
    name,
    unit: "",
    meaning: "",
    kind: "text",
    values: Int32Array.from(values),
  });
  const columns = [
    number("device", [0, 0, 0]),
    text("counter", [0, 1, 0]),
    text("unit", [2, 3, 2]),
    number("start_ms", [0, 0, 5]),
    number("value", [400, 61, 600]),
    number("limit", [700, NaN, 700]),
  ];
  const readings = new Table({ name: "counter_timeline", meaning: "", notes: [], rows: 3, columns }, texts);
  const [power, temperature] = countersOf({
    isDiff: false,
    data: { hasCorrected: false },
    hasTable: (name: string) => name === "counter_timeline",
    wholeTable: () => readings,
    palette: { shaded: (colour: string) => colour },
  } as unknown as App);
  expect([power.title, power.shown(600), power.most, power.line?.name, power.tall]).toEqual(["power", "600 W", 700, "limit", true]);
  expect([...power.series[0].values]).toEqual([400, 600]);
  expect([temperature.title, temperature.shown(61), temperature.line, temperature.tall]).toEqual(["temperature", "61 °C", null, false]);
});

test("an allocation that failed is a mark on the memory of its device", () => {
  const column = (name: string, kind: "number" | "text", ...values: number[]): Column =>
    ({ name, unit: "", meaning: "", kind, values: kind === "text" ? Int32Array.from(values) : Float64Array.from(values) }) as Column;
  const texts = ["GPU 0", "GPU 1"];
  const made = (name: string, columns: Column[]): Table => new Table({ name, meaning: "", notes: [], rows: 2, columns }, texts);
  const tables: Record<string, Table> = {
    memory_timeline: made("memory_timeline", [
      column("device", "text", 0, 1),
      column("start_ms", "number", 0, 0),
      column("parameters_bytes", "number", 5, 7),
    ]),
    memory_failures: made("memory_failures", [
      column("device", "text", 1, 1),
      column("start_ms", "number", 3, 4),
      column("requested_bytes", "number", 2048, 4096),
    ]),
  };
  const [first, second] = countersOf({
    isDiff: false,
    data: { hasCorrected: false },
    hasTable: (name: string) => name in tables,
    wholeTable: (name: string) => tables[name],
    palette: { shaded: (colour: string) => colour },
  } as unknown as App);
  expect(first.marks).toEqual([]);
  expect(second.marks).toEqual([
    { time: 3e6, text: "out of memory: 2.00 KiB asked for" },
    { time: 4e6, text: "out of memory: 4.00 KiB asked for" },
  ]);
});

test("every pixel from the first moment on is drawn once, in order", () => {
  let seed = 7;
  const random = (most: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
  for (let round = 0; round < 200; round++) {
    const starts = Array.from({ length: 1 + random(30) }, () => random(1000)).sort((a, b) => a - b);
    const memory = counter(
      starts,
      starts.map(() => random(50)),
    );
    const [from, ns, width] = [random(600) - 200, 1 + random(40), 1 + random(60)];
    const runs = runsOfPixels(memory, from, ns, width);
    let x = Math.max(0, Math.floor((starts[0] - from) / ns));
    for (const [left, right, row] of runs) {
      expect(left).toBe(x);
      for (; x < right; x++) {
        const held = starts.flatMap((start, at) =>
          start < from + (x + 1) * ns && (starts[at + 1] ?? Infinity) > from + x * ns ? [at] : [],
        );
        expect(memory.total[row]).toBe(Math.max(...held.map((at) => memory.total[at])));
      }
    }
    if (starts[0] < from + width * ns) expect(x).toBe(width);
  }
});

test("counters take the height that few tracks leave, and never less than their own", () => {
  const tracks = [counter([0], [1]), counter([0], [1])];
  const choices = { isOpen: () => true, isPinned: () => null };
  const heights = (least: number): number[] =>
    layOut([{ gpu: null, heading: "", lanes: tracks }], choices, 500, least).counters.map(({ height }) => height);
  const [own] = heights(0);
  expect(heights(2 * own)).toEqual([own, own]);
  expect(heights(2 * own + 101)).toEqual([own + 50, own + 50]);
});
