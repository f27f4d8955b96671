// From the packed text to typed arrays. Runs in a worker; on the main thread where a browser refuses one.
import { readInts, readNumbers, unpack } from "../../shared/blocks";
import { decodeJob, type DecodedJob } from "./job";
import type { ColumnSpec, PathHeader, ReportHeader, SceneHeader, TableHeader } from "../../shared/generated/records";

/** Everything that crosses from the worker: plain objects and typed arrays. */
export interface Decoded {
  header: Omit<ReportHeader, "scenes" | "tables" | "criticalPath" | "corrected" | "job">;
  /** Whether the events can be shown with corrected times. */
  hasCorrected: boolean;
  scenes: DecodedScene[];
  tables: DecodedTable[];
  path: DecodedPath | null;
  /** The ranks of a job, on the page of one. */
  job: DecodedJob | null;
}

export interface DecodedScene {
  header: SceneHeader;
  /** Per event: row of the list of labels, times in ns, depth in the call tree, step, row of specs, or -1. */
  label: Int32Array;
  start: Float64Array;
  duration: Float64Array;
  lane: Int32Array;
  depth: Int32Array;
  parent: Int32Array;
  step: Int32Array;
  spec: Int32Array;
  /** Backward op → the forward op that made it, -1 for none. */
  forward: Int32Array;
  /** Per GPU event, in row order: its row, the rows of its launch and owner, and so on; -1 for none. */
  gpuRow: Int32Array;
  launch: Int32Array;
  owner: Int32Array;
  call: Int32Array;
  geometry: Int32Array;
  gpu: Int32Array;
  stream: Float64Array;
  /** Per gap, GPU by GPU and in order of time: the text that names its cause. */
  gapCause: Int32Array;
  gapLength: Float64Array;
  copyRow: Int32Array;
  copyBytes: Float64Array;
  /** Arrows between the warps of a kernel: the event that each leaves and the one that it leads to. */
  arrowFrom: Int32Array;
  arrowTo: Int32Array;
  /** Per table: for each GPU event the row it belongs to, -1 for none. */
  members: Record<string, Int32Array>;
}

/** The critical path of the first scene, one entry per segment; times in ns. */
export interface DecodedPath {
  /** What each kind means, in the order of their numbers. */
  kinds: Record<string, string>;
  /** Of the table that is made of it. */
  columns: PathHeader["columns"];
  kind: Int32Array;
  /** The event, -1 for none. */
  row: Int32Array;
  /** In the simulated run. */
  start: Float64Array;
  time: Float64Array;
  /** As recorded. */
  from: Float64Array;
  to: Float64Array;
}

export interface DecodedTable {
  name: string;
  meaning: string;
  notes: string[];
  rows: number;
  columns: DecodedColumn[];
}

export interface DecodedColumn {
  name: string;
  unit: string;
  meaning: string;
  kind: "number" | "text" | "bool";
  /** Numbers (NaN: nothing), or places in the list of texts (-1: nothing). */
  values: Float64Array | Int32Array;
}

/** With `corrected`, the events have the times that they nearly had without the profiler, where the page has those. */
export async function decode(base64: string, corrected: boolean): Promise<Decoded> {
  const { header, bytes } = await unpack(base64);
  const { scenes, tables, criticalPath, corrected: times, job, ...rest } = header as ReportHeader;
  const chosen = corrected && times ? { scenes: [times.scene], path: times.criticalPath } : { scenes, path: criticalPath };
  return {
    header: rest,
    hasCorrected: times !== null,
    scenes: chosen.scenes.map((scene) => decodeScene(scene, rest.kinds, bytes)),
    tables: tables.map((table) => decodeTable(table, bytes)),
    path: chosen.path && decodePath(chosen.path, bytes),
    job: job && decodeJob(job, bytes),
  };
}

/** The buffers that can be handed over instead of copied. */
export function buffersOf(decoded: Decoded): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  const visit = (value: unknown): void => {
    if (ArrayBuffer.isView(value)) buffers.add(value.buffer as ArrayBuffer);
    else if (Array.isArray(value)) {
      if (typeof value[0] === "object") value.forEach(visit);
    } else if (value && typeof value === "object") Object.values(value).forEach(visit);
  };
  visit(decoded.scenes);
  visit(decoded.tables);
  visit(decoded.path);
  visit(decoded.job);
  return [...buffers];
}

function decodeScene(header: SceneHeader, kinds: string[], bytes: Uint8Array): DecodedScene {
  const ints = (name: string): Int32Array => readInts(header.columns[name], bytes);
  const label = ints("label");
  const depth = ints("depth");
  const launch = ints("launch");
  const lane = lanesOf(header);
  const scene: DecodedScene = {
    header,
    label,
    start: readNumbers(header.columns["start"], bytes),
    duration: readNumbers(header.columns["duration"], bytes),
    lane,
    depth,
    parent: parentsOf(header, label, depth, lane, kinds, ints("oddRow"), ints("oddParent")),
    step: ints("step"),
    spec: spread(ints("spec"), label, header.labels.kind, kinds.indexOf("op")),
    forward: scattered(header.events, ints("forwardRow"), ints("forward")),
    gpuRow: ints("gpuRow"),
    launch,
    owner: ints("owner").map((distance, event) => distance + launch[event]),
    call: ints("call"),
    geometry: ints("geometry"),
    gpu: ints("gpu"),
    stream: readNumbers(header.columns["stream"], bytes),
    gapCause: ints("gapCause"),
    gapLength: readNumbers(header.columns["gapLength"], bytes),
    copyRow: readInts(header.copies.row, bytes),
    copyBytes: readNumbers(header.copies.bytes, bytes),
    arrowFrom: ints("arrowFrom"),
    arrowTo: ints("arrowTo"),
    members: membersOf(header, bytes),
  };
  return scene;
}

function lanesOf(header: SceneHeader): Int32Array {
  const lane = new Int32Array(header.events);
  header.lanes.forEach(({ first, events }, number) => lane.fill(number, first, first + events));
  return lane;
}

// Host kinds that take no part in the call tree: they would break the chain of depths.
const OUTSIDE_TREE = ["kernel", "memcpy", "memset", "sync", "gpu_annotation", "overhead", "counter"];

function parentsOf(
  header: SceneHeader,
  label: Int32Array,
  depth: Int32Array,
  lane: Int32Array,
  kinds: string[],
  oddRow: Int32Array,
  oddParent: Int32Array,
): Int32Array {
  const outside = header.labels.kind.map((kind) => OUTSIDE_TREE.includes(kinds[kind]));
  const parent = new Int32Array(header.events).fill(-1);
  const last: number[] = [];
  let current = -1;
  for (let row = 0; row < parent.length; row++) {
    if (outside[label[row]]) continue;
    if (lane[row] !== current) {
      current = lane[row];
      last.length = 0;
    }
    const level = depth[row];
    if (level > 0) parent[row] = last[level - 1] ?? -1;
    last[level] = row;
  }
  for (let i = 0; i < oddRow.length; i++) parent[oddRow[i]] = oddParent[i];
  return parent;
}

/** A column that only events of one kind have, laid out over all events. */
function spread(values: Int32Array, label: Int32Array, kindOf: number[], kind: number): Int32Array {
  const whole = new Int32Array(label.length).fill(-1);
  let next = 0;
  for (let row = 0; row < label.length; row++) if (kindOf[label[row]] === kind) whole[row] = values[next++];
  return whole;
}

function scattered(length: number, rows: Int32Array, values: Int32Array): Int32Array {
  const whole = new Int32Array(length).fill(-1);
  for (let i = 0; i < rows.length; i++) whole[rows[i]] = values[i];
  return whole;
}

function membersOf(header: SceneHeader, bytes: Uint8Array): Record<string, Int32Array> {
  const group = readInts(header.members.group, bytes);
  const rowsOf = (spec: ColumnSpec): Int32Array => {
    const rows = readInts(spec, bytes);
    return group.map((member) => rows[member]);
  };
  return Object.fromEntries(Object.entries(header.members.rows).map(([name, spec]) => [name, rowsOf(spec)]));
}

function decodePath(header: PathHeader, bytes: Uint8Array): DecodedPath {
  const [kind, row] = [readInts(header.kind, bytes), readInts(header.row, bytes)];
  const [pause, recorded, cost] = [header.pause, header.recorded, header.cost].map((spec) => readNumbers(spec, bytes));
  const [from, to] = [new Float64Array(kind.length), new Float64Array(kind.length)];
  const [start, time] = [new Float64Array(kind.length), new Float64Array(kind.length)];
  let [begins, ended] = [header.start, 0];
  for (let i = 0; i < kind.length; i++) {
    from[i] = ended + pause[i];
    ended = to[i] = from[i] + recorded[i];
    start[i] = begins;
    time[i] = recorded[i] - cost[i];
    begins += time[i];
  }
  return { kinds: header.kinds, columns: header.columns, kind, row, start, time, from, to };
}

function decodeTable(header: TableHeader, bytes: Uint8Array): DecodedTable {
  const columns = header.columns.map(({ data, name, unit, meaning }): DecodedColumn => ({
    name,
    unit,
    meaning,
    kind: data.text ? "text" : data.bool ? "bool" : "number",
    values: data.text ? readInts(data, bytes) : readNumbers(data, bytes),
  }));
  for (const [place, { data, expected }] of header.columns.entries()) if (expected) correct(columns, place, expected, data.scale ?? 1);
  if (header.order) reorder(columns, header.rows, header.order);
  const { name, meaning, notes, rows } = header;
  return { name, meaning, notes, rows, columns };
}

/** A column that is stored as what it differs by from a sum of others. */
function correct(columns: DecodedColumn[], place: number, factors: Record<string, number>, scale: number): void {
  const { values } = columns[place];
  const parts = Object.entries(factors).map(([name, factor]) => ({
    values: columns.find((column) => column.name === name)!.values,
    factor,
  }));
  for (let row = 0; row < values.length; row++) {
    let expected = 0;
    for (const part of parts) expected += (part.values[row] || 0) * part.factor;
    values[row] = (Math.round(values[row] * scale) + Math.floor(expected * scale + 0.5)) / scale;
  }
}

/** Rows back in the order that the table has. */
function reorder(columns: DecodedColumn[], rows: number, order: [string, boolean][]): void {
  const keys = order.map(([name, descending]) => {
    const column = columns.find((candidate) => candidate.name === name);
    if (!column) throw new Error(`no column ${name} to sort by`);
    return { values: column.values, sign: descending ? -1 : 1 };
  });
  const places = Uint32Array.from({ length: rows }, (_, row) => row).sort((a, b) => {
    for (const { values, sign } of keys) if (values[a] !== values[b]) return sign * (values[a] - values[b]);
    return a - b;
  });
  for (const column of columns) {
    const sorted = column.values.slice();
    for (let row = 0; row < rows; row++) sorted[row] = column.values[places[row]];
    column.values = sorted;
  }
}
