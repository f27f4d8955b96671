// From the packed text to typed arrays. What the first screen does not need is unpacked when it is first asked for: most
// tables of a page are never opened.
import { readInts, readNumbers, unpack } from "../../shared/blocks";
import { decodeJob, type DecodedJob } from "./job";
import type { ColumnSpec, PathHeader, ReportHeader, SceneHeader, TableHeader } from "../../shared/generated/records";

export interface Decoded {
  header: Omit<ReportHeader, "scenes" | "tables" | "criticalPath" | "corrected" | "job">;
  /** Whether the events can be shown with corrected times. */
  hasCorrected: boolean;
  scenes: DecodedScene[];
  /** In the report's order. */
  tables: DecodedTable[];
  path: DecodedPath | null;
  /** The ranks of a job, on the page of one. */
  job: DecodedJob | null;
}

/** What a trace's events are made of: columns that every drawing needs, and others that are unpacked on demand. */
export class DecodedScene {
  /** Per event: row of the list of labels, times in ns, depth in the call tree, step, or -1. */
  readonly label: Int32Array;
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly lane: Int32Array;
  readonly depth: Int32Array;
  readonly step: Int32Array;
  /** Per GPU event, in row order: its row, and the row of its launch; -1 for none. */
  readonly gpuRow: Int32Array;
  readonly launch: Int32Array;
  /** Arrows between the warps of a kernel: the event that each leaves and the one that it leads to. */
  readonly arrowFrom: Int32Array;
  readonly arrowTo: Int32Array;
  /** Per table: for each GPU event the row it belongs to, -1 for none. */
  readonly members: Readonly<Record<string, Int32Array>>;
  private readonly later: Later = {};

  constructor(
    readonly header: SceneHeader,
    private readonly kinds: string[],
    private readonly bytes: Uint8Array,
  ) {
    this.label = this.ints("label");
    this.start = this.numbers("start");
    this.duration = this.numbers("duration");
    this.lane = lanesOf(header);
    this.depth = this.ints("depth");
    this.step = this.ints("step");
    this.gpuRow = this.ints("gpuRow");
    this.launch = this.ints("launch");
    this.arrowFrom = this.ints("arrowFrom");
    this.arrowTo = this.ints("arrowTo");
    this.members = membersOf(header, bytes);
  }

  /** The event that each event runs in. */
  get parent(): Int32Array {
    return (this.later.parent ??= parentsOf(this, this.kinds, this.ints("oddRow"), this.ints("oddParent")));
  }
  /** Per event the row of specs, -1 for none. */
  get spec(): Int32Array {
    return (this.later.spec ??= spread(this.ints("spec"), this.label, this.header.labels.kind, this.kinds.indexOf("op")));
  }
  /** Backward op → the forward op that made it, -1 for none. */
  get forward(): Int32Array {
    return (this.later.forward ??= scattered(this.header.events, this.ints("forwardRow"), this.ints("forward")));
  }
  /** Per GPU event: the row of its owner, and so on; -1 for none. */
  get owner(): Int32Array {
    return (this.later.owner ??= this.ints("owner").map((distance, event) => distance + this.launch[event]));
  }
  get call(): Int32Array {
    return (this.later.call ??= this.ints("call"));
  }
  get geometry(): Int32Array {
    return (this.later.geometry ??= this.ints("geometry"));
  }
  get gpu(): Int32Array {
    return (this.later.gpu ??= this.ints("gpu"));
  }
  get stream(): Float64Array {
    return (this.later.stream ??= this.numbers("stream"));
  }
  /** Per gap, GPU by GPU and in order of time: the text that names its cause. */
  get gapCause(): Int32Array {
    return (this.later.gapCause ??= this.ints("gapCause"));
  }
  get gapLength(): Float64Array {
    return (this.later.gapLength ??= this.numbers("gapLength"));
  }
  get copyRow(): Int32Array {
    return (this.later.copyRow ??= readInts(this.header.copies.row, this.bytes));
  }
  get copyBytes(): Float64Array {
    return (this.later.copyBytes ??= readNumbers(this.header.copies.bytes, this.bytes));
  }

  private ints(name: string): Int32Array {
    return readInts(this.header.columns[name], this.bytes);
  }
  private numbers(name: string): Float64Array {
    return readNumbers(this.header.columns[name], this.bytes);
  }
}

type OnDemand = "parent" | "spec" | "forward" | "owner" | "call" | "geometry" | "gpu" | "gapCause" | "copyRow";
type Later = { [K in OnDemand]?: Int32Array } & { [K in "stream" | "gapLength" | "copyBytes"]?: Float64Array };

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
  readonly values: Float64Array | Int32Array;
}

/** With `corrected`, the events have the times that they nearly had without the profiler, where the page has those. */
export async function decode(base64: string, corrected: boolean): Promise<Decoded> {
  const { header, bytes } = await unpack(base64);
  const { scenes, tables, criticalPath, corrected: times, job, ...rest } = header as ReportHeader;
  const chosen = corrected && times ? { scenes: [times.scene], path: times.criticalPath } : { scenes, path: criticalPath };
  return {
    header: rest,
    hasCorrected: times !== null,
    scenes: chosen.scenes.map((scene) => new DecodedScene(scene, rest.kinds, bytes)),
    tables: tables.map((table) => decodeTable(table, bytes)),
    path: chosen.path && decodePath(chosen.path, bytes),
    job: job && decodeJob(job, bytes),
  };
}

function lanesOf(header: SceneHeader): Int32Array {
  const lane = new Int32Array(header.events);
  header.lanes.forEach(({ first, events }, number) => lane.fill(number, first, first + events));
  return lane;
}

// Host kinds that take no part in the call tree: they would break the chain of depths.
const OUTSIDE_TREE = ["kernel", "memcpy", "memset", "sync", "gpu_annotation", "overhead", "counter"];

function parentsOf(scene: DecodedScene, kinds: string[], oddRow: Int32Array, oddParent: Int32Array): Int32Array {
  const { header, label, depth, lane } = scene;
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
  const rowsOf = (spec: ColumnSpec): Int32Array => {
    const rows = readInts(spec, bytes);
    return readInts(header.members.group, bytes).map((member) => rows[member]);
  };
  const members = {};
  for (const [name, spec] of Object.entries(header.members.rows)) {
    let rows: Int32Array | null = null;
    Object.defineProperty(members, name, { enumerable: true, get: () => (rows ??= rowsOf(spec)) });
  }
  return members;
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

type Values = DecodedColumn["values"];

/** A table whose columns are unpacked when their values are first read. */
function decodeTable(header: TableHeader, bytes: Uint8Array): DecodedTable {
  const stored = header.columns.map(({ data, expected }) =>
    once(() => {
      const values = data.text ? readInts(data, bytes) : readNumbers(data, bytes);
      if (expected) correct(values, expected, data.scale ?? 1, storedOf);
      return values;
    }),
  );
  const storedOf = (name: string): Values => {
    const place = header.columns.findIndex((column) => column.name === name);
    if (place < 0) throw new Error(`table ${header.name} has no column ${name}`);
    return stored[place]();
  };
  const places = once(() => placesBy(header.rows, header.order ?? [], storedOf));
  const columns = header.columns.map(({ data, name, unit, meaning }, place): DecodedColumn => {
    const values = once(() => (header.order ? arranged(stored[place](), places()) : stored[place]()));
    return {
      name,
      unit,
      meaning,
      kind: data.text ? "text" : data.bool ? "bool" : "number",
      get values() {
        return values();
      },
    };
  });
  const { name, meaning, notes, rows } = header;
  return { name, meaning, notes, rows, columns };
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** A column that is stored as what it differs by from a sum of others. */
function correct(values: Values, factors: Record<string, number>, scale: number, valuesOf: (name: string) => Values): void {
  const parts = Object.entries(factors).map(([name, factor]) => ({ values: valuesOf(name), factor }));
  for (let row = 0; row < values.length; row++) {
    let expected = 0;
    for (const part of parts) expected += (part.values[row] || 0) * part.factor;
    values[row] = (Math.round(values[row] * scale) + Math.floor(expected * scale + 0.5)) / scale;
  }
}

/** The stored rows in the order that the table has. */
function placesBy(rows: number, order: [string, boolean][], valuesOf: (name: string) => Values): Uint32Array {
  const keys = order.map(([name, descending]) => ({ values: valuesOf(name), sign: descending ? -1 : 1 }));
  return Uint32Array.from({ length: rows }, (_, row) => row).sort((a, b) => {
    for (const { values, sign } of keys) if (values[a] !== values[b]) return sign * (values[a] - values[b]);
    return a - b;
  });
}

function arranged<T extends Values>(values: T, places: Uint32Array): T {
  const sorted = values.slice() as T;
  for (let row = 0; row < places.length; row++) sorted[row] = values[places[row]];
  return sorted;
}
