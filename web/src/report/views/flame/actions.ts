// From a frame to the other sections: the rows of a table about it, or its longest event on the timeline.
import type { App, Target } from "../../app";
import { quoted } from "../tables/filter";
import { nameOf, toneOf, type Frames } from "./frames";

const PYTHON_FRAME = /^(.+?)\((\d+)\): (.*)$/s;

/** Tables about a kind of frame, best first, and the column with its name. */
const TABLES: Record<string, [table: string, column: string][]> = {
  kernel: [
    ["kernels", "kernel_short"],
    ["diff_kernels", "kernel"],
  ],
  op: [
    ["op_shapes", "op"],
    ["ops", "op"],
    ["diff_ops", "op"],
  ],
  module: [
    ["modules", "module"],
    ["diff_modules", "module"],
  ],
  annotation: [["scopes", "scope"]],
};
/** Frames that name a line of source: the table with its file and function. */
const LINES: Record<string, string> = { python: "python_lines", line: "stalls" };
/** Where no other table has it, the tree itself as rows. */
const TREES: [table: string, column: string][] = [
  ["call_paths", "name"],
  ["tree", "name"],
];

/** Where "Show in tables" leads for a frame, null where no table has it. */
export function tableTarget(app: App, frames: Frames, frame: number): Target | null {
  const { kind } = toneOf(frames, frame);
  // In a comparison the frame may be one kernel that another replaced.
  const name = nameOf(frames, frame).split(" → ")[0];
  const line = LINES[kind] ? lineTarget(app, LINES[kind], name) : null;
  if (line) return line;
  const match = [...(TABLES[kind] ?? []), ...TREES].find(([table, column]) => holds(app, table, column, name));
  return match ? { to: "table", table: match[0], filter: plain(name) ? name : quoted(name) } : null;
}

/** Whether a filter takes a name as it stands, as words. */
function plain(name: string): boolean {
  return /^[\w.:/ -]+$/.test(name) && !/\w:(?!:)/.test(name);
}

function holds(app: App, table: string, column: string, text: string): boolean {
  if (!app.hasTable(table)) return false;
  const whole = app.wholeTable(table);
  if (!whole.has(column)) return false;
  const cells = whole.column(column);
  for (let row = 0; row < whole.rows; row++) if (whole.textOf(cells, row).includes(text)) return true;
  return false;
}

/** The function where the table has it, else its file. */
function lineTarget(app: App, table: string, name: string): Target | null {
  const match = PYTHON_FRAME.exec(name);
  if (!match) return null;
  const [, file, , called] = match;
  const text = holds(app, table, "function", called) ? called : holds(app, table, "file", file) ? file : "";
  return text ? { to: "table", table, filter: plain(text) ? text : quoted(text) } : null;
}

export function longestTarget(frames: Frames, frame: number): Target | null {
  const row = frames.longest[frame];
  return row >= 0 ? { to: "event", scene: 0, row } : null;
}
