// Where a finding and its evidence lead: Python sends what they point at, and this makes links of it.
import type { App, Target } from "./app";
import { longestEvent } from "./data/members";
import type { ReportHeader } from "../shared/generated/records";
import { quoted } from "./views/tables/filter";

type PointedAt = ReportHeader["targets"][number][number];

export interface Link {
  text: string;
  target: Target;
}

/** The links of a row of the table `findings`, the most specific first. */
export function findingLinks(app: App, row: number): Link[] {
  return linksTo(app, app.header.findingTargets[row] ?? []);
}

/** The same for the table `evidence`; what points at nothing leads to the evidence of its finding. */
export function evidenceLinks(app: App, row: number): Link[] {
  const links = linksTo(app, app.header.targets[row] ?? []);
  const code = app.wholeTable("evidence").text("code", row);
  return links.length ? links : [{ text: "evidence", target: { to: "table", table: "evidence", filter: `code:${code}` } }];
}

function linksTo(app: App, targets: PointedAt[]): Link[] {
  return targets.flatMap((target) => linkTo(app, target));
}

function linkTo(app: App, target: PointedAt): Link[] {
  switch (target.to) {
    case "row":
      return app.hasTable(target.table) ? rowLinks(app, target.table, target.row) : [];
    case "rows": {
      const { table, column, value } = target;
      return app.hasTable(table) ? [{ text: spoken(table), target: { to: "table", table, filter: `${column}=${quoted(value)}` } }] : [];
    }
    case "range":
      return [
        {
          text: isGap(app, target.start_ns) ? "longest gap" : "this time",
          target: { to: "range", from: target.start_ns, until: target.end_ns },
        },
      ];
    case "step":
      return [{ text: "this step", target: { to: "step", step: target.step } }];
  }
}

/** A row, and the longest event behind it. */
function rowLinks(app: App, table: string, row: number): Link[] {
  const event = app.scene ? longestEvent(app.scene, table, row) : null;
  const links: Link[] =
    event === null ? [] : [{ text: "longest on the timeline", target: { to: "event", scene: 0, row: event, zoom: { table, row } } }];
  return [...links, { text: spoken(table), target: { to: "table", table, row } }];
}

function isGap(app: App, startNs: number): boolean {
  return (
    app.hasTable("gaps") &&
    app
      .wholeTable("gaps")
      .column("start_ms")
      .values.some((ms) => Math.round(1e6 * ms) === startNs)
  );
}

function spoken(table: string): string {
  return table.replaceAll("_", " ");
}
