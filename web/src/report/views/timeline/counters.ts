// Counters over time (memory, queue length, power …): tables with a moment per row, each drawn as a track of its own.
import type { App } from "../../app";
import type { Column, Table } from "../../data/table";
import { formatBytes, formatNumber } from "../../../shared/format";

/** A table with `start_ms` and numbers that hold from each row to the next of its track. */
interface Source {
  table: string;
  title: string;
  /** Columns whose values tell tracks apart. */
  by: string[];
  /** Columns that are not drawn. */
  not?: string[];
  /** Drawn as a line over the areas. */
  line?: string;
  stacked: boolean;
  /** Whether there was something before the first row: it was held already, and nothing had changed yet. */
  heldBefore?: boolean;
  /** The table with what was there at the peak. */
  holders?: string;
  /** A column with the unit of each row, where the columns have none of their own. */
  units?: string;
  /** A table with moments of its own to mark, of the same device. */
  marks?: string;
  /** Whether each row is an interval as long as the others, after the last of which there is nothing. */
  equalIntervals?: boolean;
  /** What a reader should know of each value. */
  hint?: string;
  /** The tracks that are shown at full height, by the first of what tells them apart; all where it is not given. */
  tall?: string[];
}

const SOURCES: Source[] = [
  {
    table: "memory_timeline",
    title: "Memory",
    by: ["device"],
    not: ["start_ms", "allocated_bytes"],
    line: "reserved_bytes",
    stacked: true,
    heldBefore: true,
    holders: "memory_peak",
    marks: "memory_failures",
  },
  {
    table: "queue_timeline",
    title: "Queue",
    by: ["device", "stream"],
    not: ["start_ms"],
    line: "length_mean",
    stacked: false,
    equalIntervals: true,
  },
  {
    table: "counter_timeline",
    title: "",
    by: ["counter", "device"],
    not: ["start_ms"],
    line: "limit",
    stacked: false,
    units: "unit",
    tall: ["power", "SM clock"],
    hint: "as the driver read it last, up to 0.1 s earlier",
  },
];

/** From the bottom up; what is not listed follows in grey tones. */
const COLOURS: Record<string, string> = {
  parameters: "#0072b2",
  optimizer_state: "#7b4ea3",
  gradients: "#d55e00",
  activations: "#009e73",
  kv_cache: "#56b4e9",
  workspace: "#cc79a7",
  temporary: "#e6c229",
  held_before: "#8c8c8c",
  unknown: "#b8b8b8",
  length_max: "#e69f00", // light enough for the line of the mean over it
};
const SPARE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7b4ea3"];

export interface Series {
  name: string;
  colour: string;
  values: Float64Array;
}

export interface Mark {
  time: number;
  text: string;
}

export class Counter {
  /** Of all series together where they are stacked, else of the largest. */
  readonly total: Float64Array;
  readonly most: number;
  /** The row in which the total is largest. */
  readonly peak: number;

  constructor(
    /** As the address names it. */
    readonly key: string,
    readonly title: string,
    readonly starts: Float64Array,
    readonly series: Series[],
    readonly line: Series | null,
    readonly stacked: boolean,
    readonly unit: string,
    /** Of the report, and the rows of it that this is. */
    readonly table: string,
    readonly holders: string,
    /** What tells it from other tracks of its table: column and value. */
    readonly which: [column: string, value: string][],
    /** Whether the first row stands for the time before it too. */
    readonly heldBefore = false,
    /** Whether it is shown at full height unless the reader folds it. */
    readonly tall = true,
    /** Moments worth a line of their own: allocations that failed. */
    readonly marks: readonly Mark[] = [],
    readonly hint = "",
    /** When the last row ceases to hold. */
    readonly end = Infinity,
  ) {
    this.total = starts.map((_, row) => {
      const values = series.map(({ values: own }) => own[row] || 0);
      return stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values);
    });
    this.peak = this.total.reduce((best, value, row) => (value > this.total[best] ? row : best), 0);
    this.most = Math.max(this.total[this.peak] ?? 0, ...(line?.values ?? []).filter((value) => value > 0), 1e-9);
  }

  /** The row that holds at a moment, -1 for none: before the first, unless that stands for what was before it, and from the end on. */
  rowAt(time: number): number {
    if (time >= this.end) return -1;
    return Math.max(this.heldBefore && this.starts.length ? 0 : -1, lastUpTo(this.starts, time));
  }
  shown(value: number): string {
    if (this.unit === "bytes") return formatBytes(value);
    return `${formatNumber(value, this.unit)}${this.unit ? ` ${this.unit}` : ""}`;
  }
}

/** Which row stands for each run of pixels: of those that hold in a pixel the one with the largest total. */
export function runsOfPixels(
  counter: Pick<Counter, "starts" | "end" | "total" | "rowAt">,
  from: number,
  ns: number,
  pixels: number,
): [left: number, right: number, row: number][] {
  const { starts, total } = counter;
  const width = Math.min(pixels, Math.ceil((counter.end - from) / ns));
  const runs: [number, number, number][] = [];
  const push = (left: number, right: number, row: number): void => {
    const last = runs[runs.length - 1] as (typeof runs)[number] | undefined;
    if (row < 0 || right <= left) return;
    if (last?.[2] === row && last[1] === left) last[1] = right;
    else runs.push([left, right, row]);
  };
  let row = counter.rowAt(from);
  for (let x = 0; x < width;) {
    while (row + 1 < starts.length && starts[row + 1] <= from + x * ns) row++;
    let chosen = row;
    while (row + 1 < starts.length && starts[row + 1] < from + (x + 1) * ns) {
      row++;
      if (chosen < 0 || total[row] >= total[chosen]) chosen = row;
    }
    push(x, x + 1, chosen);
    // Up to the pixel in which the next row begins nothing changes.
    const next = row + 1 < starts.length ? Math.min(width, Math.floor((starts[row + 1] - from) / ns)) : width;
    push(x + 1, next, row);
    x = Math.max(x + 1, next);
  }
  return runs;
}

/** The last of sorted moments that is not after a time, -1 for none. */
function lastUpTo(starts: Float64Array, time: number): number {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** From the first moment of any counter to the last. */
export function spanOf(counters: readonly Counter[]): [number, number] {
  const first = Math.min(...counters.map(({ starts }) => starts[0]));
  const last = Math.max(...counters.map(({ starts }) => starts[starts.length - 1]));
  return Number.isFinite(first) ? [first, Math.max(last, first + 1000)] : [0, 1000];
}

export function countersOf(app: App): Counter[] {
  // Of two traces the tables are others; with corrected times events are no longer where the counters are.
  if (app.isDiff || (app.data.hasCorrected && app.store.get("times") === "corrected")) return [];
  const tracks = SOURCES.filter(({ table }) => app.hasTable(table)).flatMap((source) =>
    tracksOf(app, source, app.wholeTable(source.table)),
  );
  return [...passesOf(app), ...tracks];
}

const PHASES: [phase: string, colour: string][] = [
  ["prefill", "#e69f00"],
  ["mixed", "#cc79a7"],
  ["decode", "#0072b2"],
];

/** The forward passes of a served model: as tall as they are long, in the colour of their phase. */
function passesOf(app: App): Counter[] {
  const table = app.hasTable("iterations") ? app.wholeTable("iterations") : null;
  const rows = Array.from({ length: table?.rows ?? 0 }, (_, row) => row).filter((row) => table!.number("time_ms", row) > 0);
  if (!table || !rows.length) return [];
  const ms = (name: string): Float64Array => Float64Array.from(rows, (row) => table.number(name, row) || 0);
  const [start, gap, time] = [ms("gpu_start_ms"), ms("gap_ms"), ms("time_ms")];
  const last = rows.length - 1;
  // After the last one there is none.
  const starts = Float64Array.from([...start.map((at, row) => at - gap[row]), start[last] - gap[last] + time[last]], (at) => at * 1e6);
  const series = PHASES.map(([phase, colour]): Series => {
    const values = Float64Array.from([...rows.map((row, at) => (table.text("phase", row) === phase ? time[at] : 0)), 0]);
    return { name: phase, colour: app.palette.shaded(colour), values };
  }).filter(({ values }) => values.some((value) => value > 0));
  return [new Counter("iterations.0", "Passes", starts, series, null, true, "ms", "iterations", "", [])];
}

function tracksOf(app: App, source: Source, table: Table): Counter[] {
  if (!table.rows || !table.has("start_ms")) return [];
  const by = source.by.filter((name) => table.has(name)).map((name) => table.column(name));
  const rowsByTrack = new Map<string, number[]>();
  for (let row = 0; row < table.rows; row++) {
    const key = by.map((column) => table.textOf(column, row)).join(" · ");
    const rows = rowsByTrack.get(key);
    if (rows) rows.push(row);
    else rowsByTrack.set(key, [row]);
  }
  const drawn = table.columns.filter(
    ({ name, kind }) => kind === "number" && !source.by.includes(name) && !source.not?.includes(name) && name !== source.line,
  );
  const tracks = [...rowsByTrack.values()].map((rows, number) => trackOf(app, source, table, drawn, rows, number));
  // As the lanes that they are about: stream 2 before stream 10.
  return tracks.sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
}

function trackOf(app: App, source: Source, table: Table, drawn: Column[], rows: number[], number: number): Counter {
  const start = table.column("start_ms").values;
  rows.sort((a, b) => start[a] - start[b] || a - b);
  const pick = (column: Column): Float64Array => Float64Array.from(rows, (row) => column.values[row]);
  const used = drawn.filter((column) => rows.some((row) => column.values[row] > 0));
  const shownColumns = used.length ? used : drawn.slice(0, 1);
  const place = (name: string): number => (Object.keys(COLOURS).indexOf(name) + 100) % 100;
  const series = shownColumns
    .map((column, at): Series => {
      const name = column.name.replace(/_bytes$/, "");
      return {
        name: name.replaceAll("_", " "),
        colour: app.palette.shaded(COLOURS[name] ?? SPARE[at % SPARE.length]),
        values: pick(column),
      };
    })
    // Of those over each other the largest is drawn first, or a mean would vanish behind its maximum.
    .sort((a, b) => (source.stacked ? place(a.name.replaceAll(" ", "_")) - place(b.name.replaceAll(" ", "_")) : sumOf(b) - sumOf(a)));
  const line =
    source.line && table.has(source.line)
      ? { name: source.line.replace(/_bytes$/, "").replaceAll("_", " "), colour: "", values: pick(table.column(source.line)) }
      : null;
  const which = source.by.filter((name) => table.has(name)).map((name): [string, string] => [name, table.text(name, rows[0])]);
  const title = [source.title, ...telling(table, which).map(([name, value]) => (/^\d+$/.test(value) ? `${name} ${value}` : value))]
    .filter(Boolean)
    .join(" · ");
  return new Counter(
    `${source.table}.${number}`,
    title,
    Float64Array.from(rows, (row) => start[row] * 1e6),
    series,
    line?.values.some((value) => value > 0) ? line : null,
    source.stacked,
    (source.units && table.has(source.units) ? table.text(source.units, rows[0]) : shownColumns[0]?.unit) ?? "",
    source.table,
    source.holders && app.hasTable(source.holders) ? source.holders : "",
    which,
    source.heldBefore,
    !source.tall || source.tall.includes(which[0]?.[1]),
    source.marks && app.hasTable(source.marks) ? failuresOf(app.wholeTable(source.marks), which) : [],
    source.hint,
    source.equalIntervals && rows.length > 1 ? (2 * start[rows[rows.length - 1]] - start[rows[rows.length - 2]]) * 1e6 : Infinity,
  );
}

function failuresOf(table: Table, which: [column: string, value: string][]): Mark[] {
  return Array.from({ length: table.rows }, (_, row) => row)
    .filter((row) => which.every(([name, value]) => table.text(name, row) === value))
    .map((row) => ({
      time: table.number("start_ms", row) * 1e6,
      text: `out of memory: ${formatBytes(table.number("requested_bytes", row))} asked for`,
    }));
}

function sumOf({ values }: Series): number {
  return values.reduce((sum, value) => sum + (value || 0), 0);
}

/** What a title needs of it: not the only device where another column tells the tracks apart. */
function telling(table: Table, which: [column: string, value: string][]): [column: string, value: string][] {
  const isOnly = (name: string): boolean => table.column(name).values.every((value, _, all) => value === all[0]);
  return which.filter(([name]) => which.length === 1 || name !== "device" || !isOnly(name));
}
