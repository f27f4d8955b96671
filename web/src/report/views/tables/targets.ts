// Where a row leads: to its longest event, its stretch of time, its step, or the rows of another table.
import type { App, Target } from "../../app";
import type { Scene } from "../../data/scene";
import type { Table } from "../../data/table";
import { formatNs } from "../../../shared/format";
import { extraFacts } from "./extra";
import { quoted } from "./filter";

export interface Action {
  text: string;
  target: Target;
}
type Finder = (app: App, table: Table, row: number) => Action | null;

/** What can be done with a row; Enter does the first. */
export function actionsOf(app: App, table: Table, row: number): Action[] {
  const finders = app.hasTimeline ? (FINDERS[table.name] ?? [onTimeline]) : (ROW_FINDERS[table.name] ?? []);
  return finders.flatMap((find) => find(app, table, row) ?? []);
}

const onTimeline: Finder = (app, table, row) => {
  const target = extraFacts.get(table.name)?.target?.(app, table.originOf(row));
  if (target) return { text: target.to === "event" ? "Show on the timeline" : "Show", target };
  return longestEvent(app, table, row);
};

const longestEvent: Finder = (app, table, row) => {
  const belongs = app.scene && membership(app, app.scene, table, row);
  return belongs ? longest(app, app.scene, belongs) : null;
};

/** Which GPU events belong to a row; null where the table is not made of events. */
function membership(app: App, scene: Scene, table: Table, row: number): ((event: number) => boolean) | null {
  const origin = table.originOf(row);
  const own = scene.data.members[table.name];
  if (table.name === "modules" && own) return insideModule(app, own, origin);
  if (own) return (event) => own[event] === origin;
  const roofline = app.hasTable("roofline") ? app.wholeTable("roofline") : null;
  const rowInRoofline = roofline ? ofFamily(roofline, table.name, origin) : -1;
  const costed = scene.data.members["roofline"];
  return rowInRoofline >= 0 && costed ? (event) => costed[event] === rowInRoofline : null;
}

/** A module's events and those of the modules inside it: many launch nothing themselves. */
function insideModule(app: App, own: Int32Array, origin: number): (event: number) => boolean {
  const modules = app.wholeTable("modules");
  const path = modules.text("module", origin);
  const inside = Uint8Array.from({ length: modules.rows }, (_, row) => (`${modules.text("module", row)}/`.startsWith(`${path}/`) ? 1 : 0));
  return (event) => inside[own[event]] === 1;
}

/** A family's table holds the rows of the roofline that are of this family, in the same order. */
function ofFamily(roofline: Table, family: string, origin: number): number {
  const column = roofline.column("family");
  let before = 0;
  for (let row = 0; row < roofline.rows; row++) {
    if (roofline.textOf(column, row) === family && before++ === origin) return row;
  }
  return -1;
}

function longest(app: App, scene: Scene, belongs: (event: number) => boolean): Action | null {
  const { gpuRow, duration } = scene.data;
  let longestEvent = -1;
  for (const event of app.selection.events) {
    if (belongs(event) && (longestEvent < 0 || duration[gpuRow[event]] > duration[longestEvent])) longestEvent = gpuRow[event];
  }
  if (longestEvent < 0) return null;
  return { text: `Longest on the timeline (${formatNs(duration[longestEvent])})`, target: { to: "event", scene: 0, row: longestEvent } };
}

/** An op that launches nothing itself is shown by its longest call on the host. */
const longestCall: Finder = (app, table, row) => {
  const { scene } = app;
  if (!scene) return null;
  const name = table.text("op", row);
  const isOp = scene.data.header.labels.name.map((text) => scene.texts[text] === name);
  const { label, duration } = scene.data;
  let longestEvent = -1;
  for (let event = 0; event < scene.count; event++) {
    if (!isOp[label[event]] || scene.gpuEvent[event] >= 0 || !app.selection.hasHost(event)) continue;
    if (longestEvent < 0 || duration[event] > duration[longestEvent]) longestEvent = event;
  }
  return longestEvent < 0
    ? null
    : { text: `Longest call on the host (${formatNs(duration[longestEvent])})`, target: { to: "event", scene: 0, row: longestEvent } };
};

const range =
  (endMs: (table: Table, row: number) => number): Finder =>
  (_, table, row) => ({
    text: "Select this time on the timeline",
    target: {
      to: "range",
      from: Math.round(table.number("start_ms", row) * 1e6),
      until: Math.round(endMs(table, row) * 1e6),
    },
  });

const step: Finder = (_, table, row) => {
  const number = table.number("step", row);
  return { text: `Describe step ${number} alone`, target: { to: "step", step: number } };
};

/** To the rows of another table that a filter finds. */
const rowsOf =
  (text: string, table: string, filter: (table: Table, row: number, app: App) => string): Finder =>
  (app, from, row) => {
    const wanted = filter(from, row, app);
    return wanted && (app.hasTable(table) || extraFacts.has(table)) ? { text, target: { to: "table", table, filter: wanted } } : null;
  };

const gapsOfCause = (table: Table, row: number, app: App): string => {
  const cause = table.text("cause", row);
  return hasGaps(app, cause) ? `device=${table.text("device", row)} cause="${cause}"` : "";
};
/** Whether the table of gaps lists those of a cause; short ones are only summed. */
export function hasGaps(app: App, cause: string): boolean {
  return app.hasTable("gaps") && app.wholeTable("gaps").find("cause", cause) >= 0;
}
const eventsOfBucket = (table: Table, row: number): string => {
  if (!table.number("count", row)) return "";
  const below = table.number("to_us", row);
  return `dur_us>=${table.number("from_us", row)}${Number.isNaN(below) ? "" : ` dur_us<${below}`}`;
};

/** Where rows lead that have no place in time. */
const collective: Finder = ({ job }, table, row) => {
  const match = table.number("collective", row);
  return job && job.callOf(match) >= 0 ? { text: "Show on the timeline", target: { to: "collective", match } } : null;
};
const rankStep: Finder = ({ job }, table, row) => {
  const [from, length] = [table.number("start_ms", row) * 1e6, table.number("step_ms", row) * 1e6];
  const target: Target = { to: "rank", rank: table.number("rank", row), from, until: from + length };
  return job ? { text: "Show on the timeline", target } : null;
};

const ROW_FINDERS: Record<string, Finder[]> = {
  collectives: [collective],
  rank_steps: [rankStep],
  kernel_categories: [rowsOf("Its kernels", "kernels", (table, row) => `kernel_category="${table.text("kernel_category", row)}"`)],
  scopes: [rowsOf("Its call paths", "call_paths", (table, row) => `name=${quoted(table.text("scope", row))}`)],
  kernels: [rowsOf("Its call paths", "call_paths", (table, row) => `name=${quoted(table.text("kernel", row))}`)],
};

const FINDERS: Record<string, Finder[]> = {
  ops: [longestEvent, longestCall],
  gaps: [range((table, row) => table.number("start_ms", row) + table.number("gap_us", row) / 1e3)],
  activity: [range((table, row) => table.number("end_ms", row))],
  steps: [step],
  idle: [rowsOf("Its gaps", "gaps", gapsOfCause)],
  kernel_durations: [rowsOf("Its events", "gpu_events", eventsOfBucket)],
  kernel_categories: [longestEvent, ...ROW_FINDERS["kernel_categories"]],
  findings: [rowsOf("Its evidence", "evidence", (table, row) => `code=${table.text("code", row)}`)],
};
