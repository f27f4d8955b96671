// What is known of one event, as pairs of a name and a text.
import type { App } from "../../app";
import { NONE, type Scene } from "../../data/scene";
import { formatBytes, formatCount, formatFlop, formatNs, formatPercent, significant } from "../../../shared/format";
import { launchedInside } from "./links";
import type { Found } from "./search";

export type Fact = [name: string, value: string];

export function basicFacts(app: App, { scene: number, row }: Found, laneTitle: string): Fact[] {
  const scene = app.scenes[number];
  const { step } = scene.data;
  const mark = scene.steps.find((candidate) => candidate.step === step[row]);
  const facts: Fact[] = [
    [scene.category(row) ? "Category" : "Kind", scene.sort(row)],
    ["Start", exactNs(scene.start(row) - app.origin(number))],
    ["Duration", exactNs(scene.data.duration[row])],
    ["Lane", laneTitle],
  ];
  if (step[row] >= 0) facts.push(["Step", mark && mark.name !== String(step[row]) ? `${step[row]} (${mark.name})` : String(step[row])]);
  return facts;
}

export function gpuFacts(scene: Scene, row: number): Fact[] {
  const facts: Fact[] = [];
  const geometry = scene.geometry(row);
  if (geometry) {
    facts.push(["Grid", geometry.grid], ["Block", geometry.block]);
    if (geometry.registers >= 0) facts.push(["Registers per thread", formatCount(geometry.registers)]);
    if (geometry.sharedBytes >= 0) facts.push(["Shared memory per block", formatBytes(geometry.sharedBytes)]);
    if (geometry.occupancyPercent >= 0) facts.push(["Estimated occupancy", formatPercent(geometry.occupancyPercent)]);
  }
  const bytes = scene.copiedBytes(row);
  if (bytes !== null) {
    const rate = scene.data.duration[row] ? ` at ${significant(bytes / scene.data.duration[row])} GB/s` : "";
    facts.push(["Copied", `${formatBytes(bytes)}${rate}`]);
  }
  const launch = scene.launch(row);
  if (launch !== NONE)
    facts.push(["Launch delay", `${formatNs(scene.start(row) - scene.start(launch))} from the start of the launch call`]);
  else facts.push(["Launch", "not in the trace"]);
  return facts.filter(([, value]) => value !== "");
}

/** Recorded inputs of an op. */
export function inputFacts(scene: Scene, row: number): Fact[] {
  const inputs = scene.inputs(row);
  if (!inputs) return [];
  const facts: Fact[] = [
    ["Input shapes", inputs.dims],
    ["Input types", inputs.types],
    ["Input strides", inputs.strides],
    ["Scalar inputs", inputs.values],
  ];
  return facts.filter(([, value]) => /[^\s[\](){},;|'"]/.test(value ?? ""));
}

export function hostFacts(scene: Scene, row: number): Fact[] {
  const own = scene.launchedBy(row);
  const inside = launchedInside(scene, row);
  if (!inside.length) return [];
  const ns = inside.reduce((sum, event) => sum + scene.data.duration[event], 0);
  const what = own.length === inside.length ? "Launched" : "Launched inside";
  return [[what, `${formatCount(inside.length)} GPU ${inside.length > 1 ? "events" : "event"}, ${formatNs(ns)} of GPU time`]];
}

const COST_COLUMNS: [column: string, title: string, format?: (value: number) => string][] = [
  ["family", "Cost model"],
  ["params", "Problem"],
  ["flop", "Work per call", formatFlop],
  ["bytes", "Bytes per call", formatBytes],
  ["tflops", "Achieved"],
  ["tbps", "Achieved bandwidth"],
  ["bound", "Bound by"],
  ["roofline_us", "Roofline time", (us) => formatNs(us * 1e3)],
  ["percent_of_roofline", "Of the roofline", formatPercent],
  ["flag", "Note"],
];

/** The row of a table that a GPU event was counted in, -1 for none. */
export function memberRow(app: App, table: string, scene: Scene, row: number): number {
  if (!app.scene || !app.hasTable(table)) return NONE;
  return scene.data.members[table]?.[scene.gpuEvent[row]] ?? NONE;
}

export function costFacts(app: App, roofline: number): Fact[] {
  const table = app.wholeTable("roofline");
  return COST_COLUMNS.flatMap(([name, title, format]): Fact[] => {
    if (!table.has(name)) return [];
    const column = table.column(name);
    const shown = table.shown(column, roofline);
    if (!shown) return [];
    if (format) return [[title, format(column.values[roofline])]];
    return [[title, column.unit ? `${shown} ${column.unit}` : shown]];
  });
}

/** With digits down to the nanosecond: 12,345.678 µs is what a reader compares with other tools. */
function exactNs(ns: number): string {
  const text = formatNs(ns);
  if (Math.abs(ns) < 1e3) return text;
  return `${text} (${(ns / 1e3).toLocaleString("en-US", { maximumFractionDigits: 3 })} µs)`;
}
