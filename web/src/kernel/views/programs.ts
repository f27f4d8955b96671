// The grid of programs: pick one with the pointer, the keys, the scrubber or its numbers.
import { h, replace } from "../../shared/dom";
import { formatBytes, formatCount, formatPlural } from "../../shared/format";
import { idText, type App, type View } from "../app";
import type { ProgramId } from "../data";
import { colours, heatStep } from "../palette";
import { Picture } from "../../shared/picture";

const WIDTH_PX = 352;
const HEIGHT_PX = 300;
const CELL_PX = 36;
const MOST_TABLE_ROWS = 1000;
const AXES = ["x", "y", "z"];

/** How the grid's up to three dimensions map to rows and columns. */
interface Plan {
  rows: number;
  columns: number;
  folded: number; // the only dimension, folded into rows; -1 otherwise
  row: number;
  column: number;
  other: number; // the dimension that a slider chooses; -1: none
}

function planOf(grid: ProgramId): Plan {
  const wide = [0, 1, 2].filter((dim) => grid[dim] > 1);
  if (wide.length < 2) {
    const dim = wide[0] ?? 0;
    const columns = grid[dim] <= 16 ? grid[dim] : Math.min(256, 2 ** Math.ceil(Math.log2(Math.sqrt(grid[dim] * 2))));
    return { rows: Math.ceil(grid[dim] / columns), columns, folded: dim, row: -1, column: dim, other: -1 };
  }
  const [row, column, other = -1] = wide;
  return { rows: grid[row], columns: grid[column], folded: -1, row, column, other };
}

export function mountPrograms(host: HTMLElement, app: App): View {
  let plan = planOf(app.launch.grid);
  let slice = 0;
  const chosen = h("div", { class: "chosen" });
  const picture = new Picture({
    label: "",
    tip: app.tip,
    describe: (row, column) => {
      const program = numberAt(row, column);
      return program < 0 ? null : { title: `program ${idText(app.ids(program))}`, lines: saidOf(app, program) };
    },
    choose: (row, column) => {
      const program = numberAt(row, column);
      if (program >= 0) pick(program);
    },
  });
  picture.element.append(chosen);
  const axes = h("p", { class: "quiet small" });
  const scrubber = h("input", {
    id: "scrubber",
    attrs: { type: "range", min: "0", "aria-label": "Program, among the traced ones" },
    on: { input: () => pick(app.traced[Number(scrubber.value)]) },
  });
  const fields = AXES.map((axis, dim) =>
    h("input", {
      class: "number",
      attrs: { type: "number", min: "0", "aria-label": `program_id(${dim})`, "data-axis": axis },
      on: { change: () => fromFields() },
    }),
  );
  const step = (text: string, label: string, by: number): HTMLElement =>
    h("button", { text, title: label, attrs: { "aria-label": label }, on: { click: () => app.step("program", by) } });
  const status = h("p", { id: "program-status", attrs: { role: "status", "aria-live": "polite" } });
  const layer = h("input", {
    attrs: { type: "range", min: "0", "aria-label": "Slice of the grid" },
    on: { input: () => ((slice = Number(layer.value)), draw()) },
  });
  const layerRow = h("label", { class: "small" }, "slice ", layer);
  const details = h("details", {}, h("summary", { text: "Programs as a table" }));
  details.addEventListener("toggle", () => table());
  const labelled = fields.map((field, dim) => h("label", { class: "small" }, `${AXES[dim]} `, field));
  host.append(
    h("div", { class: "tools wrap" }, step("‹", "Previous program ([)", -1), ...labelled, step("›", "Next program (])", 1)),
    scrubber,
    status,
    picture.element,
    axes,
    layerRow,
    details,
  );

  function numberAt(row: number, column: number): number {
    const ids: ProgramId = [0, 0, 0];
    if (plan.folded >= 0) {
      ids[plan.folded] = row * plan.columns + column;
      if (ids[plan.folded] >= app.launch.grid[plan.folded]) return -1;
    } else {
      ids[plan.row] = row;
      ids[plan.column] = column;
      if (plan.other >= 0) ids[plan.other] = slice;
    }
    return app.numberOf(ids);
  }

  function pick(program: number): void {
    if (app.traced.includes(program)) app.store.set({ program });
    else status.textContent = `Program ${idText(app.ids(program))} was not traced.`;
  }

  function fromFields(): void {
    const ids = fields.map((field, dim) =>
      Math.min(app.launch.grid[dim] - 1, Math.max(0, Math.floor(Number(field.value)) || 0)),
    ) as ProgramId;
    pick(app.numberOf(ids));
  }

  function draw(): void {
    const { heat, ground, line, bad, quiet } = colours();
    picture.fit(plan.rows, plan.columns, WIDTH_PX, HEIGHT_PX, CELL_PX);
    const most = app.bytes.reduce((top, bytes) => Math.max(top, bytes), 1);
    const cells = new Float64Array(picture.cellRows * picture.cellColumns).fill(-1);
    const faulty = new Uint8Array(cells.length);
    const at = (program: number): number => {
      const ids = app.ids(program);
      if (plan.other >= 0 && ids[plan.other] !== slice) return -1;
      const [row, column] = placeOf(ids);
      return picture.cellOf(row, column);
    };
    for (const [position, program] of app.traced.entries()) {
      const cell = at(program);
      if (cell >= 0) cells[cell] = Math.max(cells[cell], app.bytes[position] / most);
    }
    for (const fault of app.launch.faults) {
      const cell = at(app.numberOf(fault.program));
      if (cell >= 0) faulty[cell] = 1;
    }
    const fill = Uint32Array.from(cells, (share) => (share < 0 ? ground : heat[heatStep(0.12 + 0.5 * share)]));
    const stripes = Uint32Array.from(cells, (share, cell) => (faulty[cell] ? bad : share < 0 && app.launch.events ? quiet : 0));
    picture.paint(fill, line, stripes);
  }

  function placeOf(ids: ProgramId): [number, number] {
    if (plan.folded < 0) return [ids[plan.row], ids[plan.column]];
    return [Math.floor(ids[plan.folded] / plan.columns), ids[plan.folded] % plan.columns];
  }

  function mark(): void {
    const ids = app.ids();
    const { position, traced, launch } = app;
    for (const [dim, field] of fields.entries()) field.value = String(Math.max(0, ids[dim]));
    scrubber.value = String(position);
    scrubber.setAttribute("aria-valuetext", `program ${idText(ids)}`);
    if (position < 0) {
      chosen.hidden = true;
      status.textContent = "Only totals were recorded.";
      return;
    }
    picture.place(chosen, ...placeOf(ids));
    picture.start(...placeOf(ids));
    status.textContent = `Program ${idText(ids)}, ${formatCount(position + 1)} of ${formatCount(traced.length)} traced${traced.length < launch.grid[0] * launch.grid[1] * launch.grid[2] ? ` (${formatCount(launch.grid[0] * launch.grid[1] * launch.grid[2])} launched)` : ""}: ${saidOf(app, traced[position]).join(", ")}`;
  }

  function table(): void {
    if (!details.open) return;
    const rows = app.traced
      .slice(0, MOST_TABLE_ROWS)
      .map((program, position) =>
        h(
          "tr",
          {},
          h("td", { text: idText(app.ids(program)) }),
          ...[app.rowsAt(position).length, app.bytes[position]].map((value) => h("td", { class: "number-cell", text: formatCount(value) })),
        ),
      );
    const heads = ["Program", "Operations", "Bytes"].map((text) => h("th", { text, attrs: { scope: "col" } }));
    const cut =
      app.traced.length > MOST_TABLE_ROWS
        ? h("p", { class: "quiet", text: `The first ${formatCount(MOST_TABLE_ROWS)} of ${formatCount(app.traced.length)}.` })
        : null;
    replace(
      details,
      details.querySelector("summary"),
      h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows))),
      cut,
    );
  }

  function all(): void {
    const { grid } = app.launch;
    plan = planOf(grid);
    slice = plan.other >= 0 ? Math.max(0, app.ids()[plan.other]) : 0;
    for (const [dim, field] of fields.entries()) {
      field.max = String(grid[dim] - 1);
      labelled[dim].hidden = dim > 0 && grid[dim] === 1;
    }
    scrubber.max = String(Math.max(0, app.traced.length - 1));
    scrubber.disabled = app.traced.length < 2;
    layerRow.hidden = plan.other < 0;
    layer.max = String(Math.max(0, (grid[plan.other] ?? 1) - 1));
    layer.value = String(slice);
    picture.label(
      `Grid of ${formatPlural(grid[0] * grid[1] * grid[2], "program")}: arrow keys read it, Enter chooses; the table below lists the programs`,
    );
    const folded =
      plan.folded >= 0
        ? `program_id(${plan.folded}) in rows of ${plan.columns}`
        : `rows: program_id(${plan.row}), columns: program_id(${plan.column})`;
    axes.textContent = `${folded}; the colour is stronger where more bytes are moved, striped red has a fault${app.launch.events && app.traced.length < grid[0] * grid[1] * grid[2] ? ", striped grey was not traced" : ""}`;
    draw();
    mark();
    table();
  }

  all();
  return {
    update(changed) {
      if (changed.has("launch")) return all();
      if (changed.has("theme")) draw();
      if (!changed.has("program")) return;
      const at = plan.other >= 0 ? app.ids()[plan.other] : slice;
      if (at !== slice) {
        slice = at;
        layer.value = String(slice);
        draw();
      }
      mark();
    },
  };
}

function saidOf(app: App, program: number): string[] {
  const position = app.traced.indexOf(program);
  if (!app.launch.events) return ["only totals were recorded"];
  if (position < 0) return ["not traced"];
  const faults = app.launch.faults.filter((fault) => app.numberOf(fault.program) === program).length;
  return [
    formatPlural(app.rowsAt(position).length, "operation"),
    `${formatBytes(app.bytes[position])} moved`,
    ...(faults ? [formatPlural(faults, "fault")] : []),
  ];
}
