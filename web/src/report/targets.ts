// Where a click on a finding's evidence leads: the longest event, the gap, the step or the rows that it is about.
import type { App, Target } from "./app";
import { longestEvent } from "./data/members";
import type { Table } from "./data/table";

export interface Link {
  text: string;
  target: Target;
}

/** The links of one row of the table `evidence`, the most telling first. */
export function linksOf(app: App, evidence: Table, row: number): Link[] {
  const what = evidence.text("what", row);
  const detail = evidence.text("detail", row);
  const links = RESOLVERS.map((resolve) => resolve(app, what, detail)).find((found) => found.length) ?? [];
  return links.length
    ? links
    : [{ text: "evidence", target: { to: "table", table: "evidence", filter: `code:${evidence.text("code", row)}` } }];
}

type Resolver = (app: App, what: string, detail: string) => Link[];

/** How long the longest gap of some evidence is, in ms as it is written; null where it is about something else. */
export function gapOf(what: string): string | null {
  return /^gap of up to ([\d.,]+) ms$/.exec(what)?.[1] ?? null;
}

const gap: Resolver = (app, what, detail) => {
  const longest = gapOf(what);
  const [, cause] = /^([^:]+): /.exec(detail) ?? [];
  if (!longest || !cause || !app.hasTable("gaps")) return [];
  const gaps = app.wholeTable("gaps");
  const isIt = (row: number): boolean =>
    gaps.text("cause", row) === cause && (gaps.number("gap_us", row) / 1e3).toFixed(2) === longest.replaceAll(",", "");
  // What ended the gap tells two of equal length apart.
  const ended = (row: number): boolean => detail.endsWith(`, before ${gaps.text("after", row)}`);
  const exact = findRow(gaps, (row) => isIt(row) && ended(row));
  const row = exact >= 0 ? exact : findRow(gaps, isIt);
  if (row < 0) return [];
  const from = gaps.number("start_ms", row) * 1e6;
  const until = from + gaps.number("gap_us", row) * 1e3;
  return [
    { text: "longest gap", target: { to: "range", from: Math.round(from), until: Math.round(until) } },
    { text: "gaps", target: { to: "table", table: "gaps", filter: `cause:"${cause}"` } },
  ];
};

/** A row whose text is exactly this one, and the longest event behind it. */
function rowLinks(app: App, table: string, row: number): Link[] {
  if (row < 0) return [];
  const event = app.scene ? longestEvent(app.scene, table, row) : null;
  const links: Link[] = event === null ? [] : [{ text: "longest on the timeline", target: { to: "event", scene: 0, row: event } }];
  return [...links, { text: table.replaceAll("_", " "), target: { to: "table", table, row } }];
}

function findRow(table: Table, matches: (row: number) => boolean): number {
  for (let row = 0; row < table.rows; row++) if (matches(row)) return row;
  return -1;
}

const costed: Resolver = (app, what) => {
  const table = app.wholeTable("roofline");
  return rowLinks(
    app,
    "roofline",
    findRow(table, (row) => `${table.text("op", row)} ${table.text("params", row)}`.trim() === what),
  );
};

const kernel: Resolver = (app, what, detail) => {
  const table = app.wholeTable("kernels");
  const named = (row: number): boolean => table.text("kernel_short", row) === what;
  const exact = findRow(table, (row) => named(row) && table.text("op", row) === detail);
  return rowLinks(app, "kernels", exact >= 0 ? exact : findRow(table, named));
};

const chain: Resolver = (app, what) => {
  const table = app.wholeTable("chains");
  const row = findRow(table, (each) => table.text("ops", each).replaceAll("aten::", "") === what.replaceAll("aten::", ""));
  if (row < 0) return [];
  const links = op(app, `aten::${what.split(" → ")[0]}`, "").slice(0, 1);
  return [...links, { text: "chains", target: { to: "table", table: "chains", row } }];
};

const op: Resolver = (app, what) => {
  const names = what.split(", ");
  const table = app.wholeTable("ops");
  return rowLinks(
    app,
    "ops",
    findRow(table, (row) => table.text("op", row) === names[0]),
  );
};

const step: Resolver = (_, what) => {
  const found = /^step (\d+)/.exec(what);
  return found ? [{ text: "this step", target: { to: "step", step: Number(found[1]) } }] : [];
};

const collective: Resolver = (app, what) => {
  const table = app.wholeTable("comm");
  const kind = what.split(" of ")[0];
  return rowLinks(
    app,
    "comm",
    findRow(table, (row) => table.text("collective", row) === kind),
  );
};

const phase: Resolver = (app, what) => {
  const table = app.wholeTable("phases");
  return what === "recomputed forward" ? rowLinks(app, "phases", table.find("phase", "recompute")) : [];
};

const RESOLVERS: Resolver[] = [gap, step, costed, chain, kernel, phase, collective, op];
