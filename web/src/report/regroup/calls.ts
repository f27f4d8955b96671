// Tables with one row per kind of call: its GPU events are taken together.
import { NONE, type Scene } from "../data/scene";
import { Table } from "../data/table";
import type { Selection } from "../selection";
import { callsOf, columnsOf, finished, sumsOf, US, type Columns, type Maker, type Sums } from "./sums";

export const opShapes: Maker = (whole, scene, selection, tables) => {
  const rowOf = scene.data.members["op_shapes"];
  const sums = sumsOf(rowOf, whole.rows, scene, selection);
  const calls = callsOf(rowOf, scene.data.owner, scene, selection);
  const count = new Float64Array(whole.rows);
  const least = new Float64Array(whole.rows).fill(Infinity);
  const most = new Float64Array(whole.rows);
  calls.row.forEach((row, call) => {
    count[row]++;
    least[row] = Math.min(least[row], calls.ns[call]);
    most[row] = Math.max(most[row], calls.ns[call]);
  });
  const mean = sums.ns.map((ns, row) => ns / count[row]);
  const spread = new Float64Array(whole.rows);
  calls.row.forEach((row, call) => (spread[row] += (calls.ns[call] - mean[row]) ** 2));
  const columns: Columns = {
    ...columnsOf(sums),
    count,
    kernel_us_mean: mean.map((ns) => ns / US),
    kernel_us_min: least.map((ns) => ns / US),
    kernel_us_max: most.map((ns) => ns / US),
    kernel_us_std: spread.map((sum, row) => (count[row] > 1 ? Math.sqrt(sum / (count[row] - 1)) / US : 0)),
    ...speedsOfShapes(whole, scene, selection, tables("roofline")),
  };
  return finished(whole, columns, "kernel_us", count);
};

/** An op's speed is that of its row in the roofline, where calls of equal cost are taken together. */
function speedsOfShapes(whole: Table, scene: Scene, selection: Selection, roofline: Table | undefined): Columns {
  if (!roofline) return {};
  const { mean_us } = meansOf(roofline.rows, scene.data.members["roofline"], scene, selection);
  const rooflineRow = new Int32Array(whole.rows).fill(NONE);
  for (const event of selection.events) {
    const row = scene.data.members["op_shapes"][event];
    if (row >= 0) rooflineRow[row] = scene.data.members["roofline"][event];
  }
  const speed = speeds(roofline, mean_us);
  const recorded = whole.column("tflops").values;
  return Object.fromEntries(
    Object.entries(speed).map(([name, values]) => [
      name,
      Float64Array.from(rooflineRow, (from, row) => (from < 0 || Number.isNaN(recorded[row]) ? NaN : values[from])),
    ]),
  );
}

interface Means {
  count: Float64Array;
  mean_us: Float64Array;
}

/** Calls per row, and the mean time in which any kernel of a call ran. */
function meansOf(rows: number, rowOf: Int32Array, scene: Scene, selection: Selection): Means {
  const calls = callsOf(rowOf, scene.data.call, scene, selection);
  const count = new Float64Array(rows);
  const unions = new Float64Array(rows);
  calls.row.forEach((row, call) => {
    count[row]++;
    unions[row] += calls.unionNs[call];
  });
  return { count, mean_us: unions.map((ns, row) => ns / count[row] / US) };
}

/** FLOP/s, B/s and the share of the roofline for other mean times: all are inverse to the time. */
function speeds(whole: Table, mean_us: Float64Array): Columns {
  const before = whole.column("kernel_us_mean").values;
  const scaled = (name: string): Float64Array => {
    const values = whole.column(name).values;
    return mean_us.map((us, row) => (us ? (values[row] * before[row]) / us : 0));
  };
  return { tflops: scaled("tflops"), tbps: scaled("tbps"), percent_of_roofline: scaled("percent_of_roofline") };
}

export const roofline: Maker = (whole, scene, selection) => costed(whole, scene.data.members["roofline"], scene, selection);

/** Each copy and each memset counts by itself, also those that share the cost of their op in the roofline. */
export const transfer: Maker = (whole, scene, selection) => {
  const sums = sumsOf(scene.data.members["transfer"], whole.rows, scene, selection);
  return withSpeeds(whole, sums, { count: sums.count, mean_us: sums.ns.map((ns, row) => ns / sums.count[row] / US) });
};

/** A family's table holds the rows of the roofline that are of this family, in the same order. */
export const family: Maker = (whole, scene, selection, tables) => {
  const roofline = tables("roofline");
  if (!roofline) return new Table(whole, whole.texts, false);
  const column = roofline.column("family");
  const familyRow = new Int32Array(roofline.rows).fill(NONE);
  let next = 0;
  for (let row = 0; row < roofline.rows; row++) {
    if (roofline.textOf(column, row) === whole.name) familyRow[row] = next++;
  }
  const rowOf = scene.data.members["roofline"].map((row) => (row >= 0 ? familyRow[row] : NONE));
  return costed(whole, rowOf, scene, selection);
};

function costed(whole: Table, rowOf: Int32Array, scene: Scene, selection: Selection): Table {
  return withSpeeds(whole, sumsOf(rowOf, whole.rows, scene, selection), meansOf(whole.rows, rowOf, scene, selection));
}

function withSpeeds(whole: Table, sums: Sums, { count, mean_us }: Means): Table {
  const speed = speeds(whole, mean_us);
  const columns: Columns = {
    ...columnsOf(sums),
    count,
    kernel_us_mean: mean_us,
    ...speed,
    lost_us: speed["percent_of_roofline"].map((share, row) => Math.max(0, mean_us[row] * (1 - share / 100)) * count[row]),
  };
  return finished(whole, columns, "total_us", count);
}

export const coverage: Maker = (whole, scene, selection) => {
  const rowOf = scene.data.members["cost_coverage"];
  const sums = sumsOf(rowOf, whole.rows, scene, selection);
  const count = new Float64Array(whole.rows);
  callsOf(rowOf, scene.data.call, scene, selection).row.forEach((row) => count[row]++);
  return finished(whole, { ...columnsOf(sums), count }, "total_us", count);
};
