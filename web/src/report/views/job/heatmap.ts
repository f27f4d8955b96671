// The heat map of ranks and steps, and the matrix of who waited for whom.
import type { App, View } from "../../app";
import { choice, h, press } from "../../../shared/dom";
import { formatCount, formatMs, formatPlural } from "../../../shared/format";
import type { Fact } from "../../../shared/tip";
import type { Table } from "../../data/table";
import type { Grid } from "./grid";
import { Heat } from "./heat";

const VALUES = [
  ["own", "Own time", "The step if no rank made it wait, without transfers; simulated"],
  ["step", "Step time", "The job's step, the same for all ranks"],
  ["compute", "Computation", "Computation on the GPU"],
  ["wait", "Wait", "Waits for other ranks in collectives"],
  ["exposed", "Exposed", "Communication that no computation hides"],
  ["idle", "Idle", "GPU idle"],
] as const;

/** A table's rows as a grid: which row and column each belongs to, and the row of the table behind each cell. */
export interface TableGrid {
  rows: number[];
  columns: number[];
  /** Row of the table per cell, -1 for none. */
  source: Int32Array;
}

export function gridOf(rowNumbers: ArrayLike<number>, columnNumbers: ArrayLike<number>, square = false): TableGrid {
  const sorted = (numbers: Iterable<number>): number[] => [...new Set(numbers)].sort((a, b) => a - b);
  const [own, other] = [Array.from(rowNumbers), Array.from(columnNumbers)];
  const rows = sorted(square ? [...own, ...other] : own);
  const columns = square ? rows : sorted(other);
  const [rowAt, columnAt] = [rows, columns].map((numbers) => new Map(numbers.map((number, at) => [number, at])));
  const source = new Int32Array(rows.length * columns.length).fill(-1);
  own.forEach((number, row) => (source[rowAt.get(number)! * columns.length + columnAt.get(other[row])!] = row));
  return { rows, columns, source };
}

function valuesOf({ rows, columns, source }: TableGrid, column: ArrayLike<number>, empty = NaN): Grid {
  const values = Float64Array.from(source, (row) => (row < 0 ? empty : column[row]));
  return { rows: rows.length, columns: columns.length, values };
}

function tableButton(app: App, table: string): HTMLElement {
  return h("button", { text: "As a table", on: { click: () => app.go({ to: "table", table }) } });
}

export function mountHeatMap(host: HTMLElement, app: App): View {
  const table = app.wholeTable("rank_steps");
  if (!table.rows) {
    host.append(
      h("p", {
        class: "empty",
        text: "No rank has marked steps (call prof.step() each iteration), so there is nothing to compare step by step.",
      }),
    );
    return { update: () => undefined };
  }
  const { store } = app;
  const grid = gridOf(table.column("rank").values, table.column("step").values);
  const rowOf = (row: number, column: number): number => grid.source[row * grid.columns.length + column];
  const offered = VALUES.filter(([value]) => table.column(`${value}_ms`).values.some((ms) => !Number.isNaN(ms)));
  const heat = new Heat({
    label: `Heat map of ${formatPlural(grid.rows.length, "rank")} and ${formatPlural(grid.columns.length, "step")}. Arrow keys go from cell to cell, Enter shows the step on the timeline.`,
    rowTitle: "rank",
    columnTitle: "step",
    row: (row) => String(grid.rows[row]),
    column: (column) => String(grid.columns[column]),
    cell: (row, column) => [`rank ${grid.rows[row]}, step ${grid.columns[column]}`, factsOf(table, rowOf(row, column))],
    format: formatMs,
    open: (row, column) => openStep(app, table, rowOf(row, column)),
  });
  const chosen = choice("Value of the heat map", offered, store.get("heat"), (value) => store.set({ heat: value }));
  const note = h("p", { class: "quiet", text: "Click a cell to see that step on the timeline." });
  host.append(h("div", { class: "job-controls" }, chosen, tableButton(app, "rank_steps")), heat.element, note);
  const show = (): void => {
    press(chosen, store.get("heat"));
    heat.show(valuesOf(grid, table.column(`${store.get("heat")}_ms`).values));
  };
  show();
  return {
    update(changed) {
      if (changed.has("heat")) show();
      else if (changed.has("theme")) heat.draw();
    },
  };
}

function factsOf(table: Table, row: number): Fact[] {
  if (row < 0) return [["not recorded", ""]];
  return VALUES.flatMap(([value, text]): Fact[] => {
    const ms = table.number(`${value}_ms`, row);
    return Number.isNaN(ms) ? [] : [[text.toLowerCase(), formatMs(ms)]];
  });
}

function openStep(app: App, table: Table, row: number): void {
  if (row < 0) return;
  const from = table.number("start_ms", row) * 1e6;
  app.go({ to: "rank", rank: table.number("rank", row), from, until: from + table.number("step_ms", row) * 1e6 });
}

export function mountWaits(host: HTMLElement, app: App): View {
  const table = app.wholeTable("waits");
  if (!table.rows) {
    const why = app.wholeTable("collectives").rows
      ? "No rank waited for another."
      : "No collective of two ranks could be matched, so it is not known who waited for whom.";
    host.append(h("p", { class: "empty", text: why }));
    return { update: () => undefined };
  }
  const grid = gridOf(table.column("rank").values, table.column("for_rank").values, true);
  const rowOf = (row: number, column: number): number => grid.source[row * grid.columns.length + column];
  const heat = new Heat(
    {
      label: `Matrix of waits: ${formatPlural(grid.rows.length, "rank")} against the ranks that they waited for. Arrow keys go from cell to cell, Enter lists the row's waits.`,
      rowTitle: "waits",
      columnTitle: "for rank",
      row: (row) => String(grid.rows[row]),
      column: (column) => String(grid.columns[column]),
      cell: (row, column) => [
        row === column ? `rank ${grid.rows[row]}` : `rank ${grid.rows[row]} waited for rank ${grid.columns[column]}`,
        waitFacts(table, rowOf(row, column), row === column),
      ],
      format: formatMs,
      open: (row, column) => app.go({ to: "table", table: "waits", filter: `rank=${grid.rows[row]} for_rank=${grid.columns[column]}` }),
    },
    true,
  );
  host.append(
    h(
      "div",
      { class: "job-controls" },
      h("span", { class: "quiet", text: "Time that a rank (row) waited per step for the one that came last (column)." }),
      tableButton(app, "waits"),
    ),
    heat.element,
  );
  const values = valuesOf(grid, table.column("wait_ms_per_step").values, 0);
  grid.rows.forEach((_, at) => (values.values[at * grid.columns.length + at] = NaN));
  heat.show(values);
  return {
    update(changed) {
      if (changed.has("theme")) heat.draw();
    },
  };
}

function waitFacts(table: Table, row: number, isItself: boolean): Fact[] {
  if (isItself) return [["", "a rank does not wait for itself"]];
  if (row < 0) return [["waits", "none"]];
  return [
    ["per step", formatMs(table.number("wait_ms_per_step", row))],
    ["in all", formatMs(table.number("wait_ms", row))],
    ["collectives", formatCount(table.number("count", row))],
  ];
}
