// One tensor's map: what the program touches in it, over nothing, counts or values.
import { mapText, type MapChoice } from "../state";
import { h, replace } from "../../shared/dom";
import { formatCount, formatPlural } from "../../shared/format";
import type { Fact } from "../../shared/tip";
import { sizeText, type App } from "../app";
import { countsOf, type Counts } from "../counts";
import type { Numbers, Tensor } from "../data";
import { inside } from "../lanes";
import { choiceOf, columnOf, indexAt, mappingOf, rowOf, isOnMap, wholeOf, type Mapping, type Window } from "../mapping";
import { ATOMIC, BEYOND, CHOSEN, colours, DROPPED, heatStep, LOADED, MASKED, signedStep, STORED } from "../palette";
import { Picture, type TipText } from "../../shared/picture";
import { table } from "../../shared/table";
import { numberText, TensorUse, type Touch } from "../touch";
import { showControls } from "./map_controls";

const WIDTH_PX = 448;
const HEIGHT_PX = 384;
const LARGE_PX = 512; // for what the smaller box would have to put together
const MARGIN = 2; // rows and columns around what a program touches
const MOST_LISTED = 8;
const MOST_TABLE_ROWS = 500;
const TOUCHED = LOADED | STORED | ATOMIC;
const FLAGS = { load: LOADED, store: STORED, atomic: ATOMIC, dot: 0, reduce: 0, elementwise: 0 };

export class TensorMap {
  readonly element: HTMLElement;
  private readonly picture: Picture;
  private readonly use: TensorUse;
  private readonly controls = h("div", { class: "tools wrap small" });
  private readonly status = h("p", { class: "status" });
  private readonly scale = h("p", { class: "quiet small" });
  private readonly details: HTMLDetailsElement = h("details", {}, h("summary", { text: "As a table" }));
  private mapping: Mapping;
  private window: Window;
  private beyond: [number, number];
  private base: Uint32Array | null = null;
  private baseKey = "";
  private counts: Counts | null | undefined;

  constructor(
    private readonly app: App,
    private readonly number: number,
    private readonly choose: (choice: MapChoice) => void,
  ) {
    const { tensor } = this;
    this.mapping = mappingOf(tensor, null);
    this.window = wholeOf(tensor, this.mapping);
    this.use = new TensorUse(app, number);
    this.beyond = this.use.overrun();
    this.picture = new Picture({ label: "", tip: app.tip, describe: (row, column) => this.describe(row, column) });
    this.details.addEventListener("toggle", () => this.table());
    const size = `${sizeText(tensor.shape)} ${tensor.dtype}`;
    this.element = h(
      "article",
      { class: "map", attrs: { "aria-label": `Tensor ${tensor.name}`, "data-tensor": tensor.name } },
      h("h3", {}, tensor.name, h("span", { class: "quiet", text: ` ${size}` })),
      this.controls,
      this.picture.element,
      this.scale,
      this.status,
      this.details,
    );
  }

  get tensor(): Tensor {
    return this.app.launch.tensors[this.number];
  }

  update(choice: MapChoice | null): void {
    this.mapping = mappingOf(this.tensor, choice);
    const rows = this.use.rows();
    const touch = this.use.touchOf(rows);
    this.follow(rows, touch);
    this.window = this.windowOf(rows);
    this.picture.fit(
      this.window.rows,
      this.window.columns,
      this.window.columns > WIDTH_PX ? LARGE_PX : WIDTH_PX,
      this.window.rows > HEIGHT_PX ? LARGE_PX : HEIGHT_PX,
    );
    this.draw(rows);
    this.describeTouch(touch, rows);
    showControls(this.controls, this.tensor, this.mapping, this.choose);
    this.table();
  }

  /** Dimensions without a choice show the index that the program begins at. */
  private follow(rows: number[], touch: Touch): void {
    const { follows, fixed } = this.mapping;
    if (!follows.some(Boolean)) return;
    const chosen = rows.filter((row) => this.app.chosenRows?.has(row));
    const first = chosen.length ? this.use.touchOf(chosen) : touch;
    for (const [dim, follow] of follows.entries()) if (follow) fixed[dim] = Math.max(0, first.low[dim] ?? 0);
  }

  private windowOf(rows: number[]): Window {
    const whole = wholeOf(this.tensor, this.mapping);
    whole.rows += this.beyond[0];
    whole.columns += this.beyond[1];
    if (!this.app.store.get("zoom")) return whole;
    let [top, left, bottom, right] = [Infinity, Infinity, -1, -1];
    for (const row of rows) {
      this.use.each(row, (_, index) => {
        if (!isOnMap(this.mapping, index)) return;
        const [y, x] = [rowOf(this.mapping, index), columnOf(this.mapping, index)];
        if (y < 0 || x < 0 || y >= whole.rows || x >= whole.columns) return;
        top = Math.min(top, y);
        left = Math.min(left, x);
        bottom = Math.max(bottom, y);
        right = Math.max(right, x);
      });
    }
    if (bottom < 0) return whole;
    top = Math.max(0, top - MARGIN);
    left = Math.max(0, left - MARGIN);
    return {
      top,
      left,
      rows: Math.min(whole.rows, bottom + 1 + MARGIN) - top,
      columns: Math.min(whole.columns, right + 1 + MARGIN) - left,
    };
  }

  private flags(rows: number[]): Uint8Array {
    const { picture, window, mapping, tensor, app } = this;
    const flags = new Uint8Array(picture.cellRows * picture.cellColumns);
    this.markBeyond(flags);
    const { chosenRows } = app;
    for (const row of rows) {
      const chosen = !chosenRows || chosenRows.has(row);
      const flag = FLAGS[app.kind(row)] | (chosen ? CHOSEN : 0);
      const masked = chosen ? MASKED : 0;
      const dropped = masked && this.use.isFaulty(row) ? MASKED | DROPPED : masked;
      this.use.each(row, (_, index, active) => {
        if (!isOnMap(mapping, index)) return;
        const y = rowOf(mapping, index) - window.top;
        const x = columnOf(mapping, index) - window.left;
        if (y >= 0 && x >= 0 && y < window.rows && x < window.columns)
          flags[picture.cellOf(y, x)] |= active ? flag : inside(tensor, index) ? masked : dropped;
      });
    }
    return flags;
  }

  /** Cells outside the tensor. */
  private markBeyond(flags: Uint8Array): void {
    const { picture, window, mapping, tensor } = this;
    const whole = wholeOf(tensor, mapping);
    if (mapping.row >= 0 && window.top + window.rows <= whole.rows && window.left + window.columns <= whole.columns) return;
    const length = mapping.row < 0 ? tensor.shape[mapping.column] : Infinity;
    for (let row = 0, cell = 0; row < picture.cellRows; row++) {
      const y = window.top + row * picture.rowsPerCell;
      for (let column = 0; column < picture.cellColumns; column++, cell++) {
        const x = window.left + column * picture.columnsPerCell;
        if (y >= whole.rows || x >= whole.columns || y * mapping.width + x >= length) flags[cell] = BEYOND;
      }
    }
  }

  private draw(rows: number[]): void {
    const { picture } = this;
    const palette = colours();
    const flags = this.flags(rows);
    const base = this.baseLayer();
    const fill = base ? base.slice() : new Uint32Array(flags.length).fill(palette.flags[0]);
    const touched = base && new Uint8Array(flags.length);
    let stripes: Uint32Array | null = null;
    for (let cell = 0; cell < flags.length; cell++) {
      const flag = flags[cell];
      if (!flag) continue;
      if (!base || flag & BEYOND) fill[cell] = palette.flags[base ? BEYOND : flag & ~MASKED & ~DROPPED];
      // A cell that an operation touches and another masks is shown as touched.
      if (flag & TOUCHED) {
        if (touched && flag & CHOSEN) touched[cell] = 1;
      } else if (flag & MASKED) {
        stripes ??= new Uint32Array(flags.length);
        stripes[cell] = flag & DROPPED ? palette.bad : palette.quiet;
      }
    }
    picture.paint(fill, palette.line, stripes, touched, this.layer().signed ? palette.text : palette.frame);
  }

  /** Colours of counts or values per cell; null where the map shows only the program. */
  private baseLayer(): Uint32Array | null {
    const { show, values, signed = false } = this.layer();
    if (!values) return null;
    const { window, mapping } = this;
    const key = [
      show,
      mapText(choiceOf(mapping)),
      mapping.fixed,
      Object.values(window),
      document.documentElement.dataset["theme"],
      colours().ground,
    ].join(" ");
    if (key !== this.baseKey || !this.base) {
      this.base = this.cellColours(values, signed);
      this.baseKey = key;
    }
    return this.base;
  }

  private layer(): { show: string; values: Uint32Array | Numbers | null; signed?: boolean } {
    const { tensor } = this;
    const show = this.app.store.get("show");
    if (show === "before") return { show, values: tensor.before, signed: true };
    if (show === "after") return { show, values: tensor.after ?? tensor.before, signed: true };
    if (show !== "programs" && show !== "accesses") return { show, values: null };
    if (this.counts === undefined && this.app.launch.events) {
      const { launch } = this.app;
      void countsOf(this.app, this.number).then((counts) => {
        this.counts = counts;
        if (this.app.launch === launch) this.update(choiceOf(this.mapping));
      });
    }
    return { show, values: this.counts?.[show] ?? null };
  }

  /** The most, or the largest magnitude, among a cell's elements. */
  private cellColours(values: Uint32Array | Numbers, signed: boolean): Uint32Array {
    const { picture, window, mapping, tensor } = this;
    const cells = new Float64Array(picture.cellRows * picture.cellColumns);
    const whole = wholeOf(tensor, mapping);
    const length = mapping.row < 0 ? tensor.shape[mapping.column] : Infinity;
    const at = this.elementAt(signed);
    const [rows, columns] = [Math.min(window.rows, whole.rows - window.top), Math.min(window.columns, whole.columns - window.left)];
    // From one row or column to the next the place moves by the same amount.
    const first = at(indexAt(mapping, 0, 0));
    const down = at(indexAt(mapping, 1, 0)) - first;
    const right = at(indexAt(mapping, 0, 1)) - first;
    let most = 0;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        if ((window.top + row) * mapping.width + window.left + column >= length) break;
        const value = values[first + (window.top + row) * down + (window.left + column) * right];
        const cell = picture.cellOf(row, column);
        if (Math.abs(value) > Math.abs(cells[cell]) || Number.isNaN(value)) cells[cell] = value;
        if (Number.isFinite(value) && Math.abs(value) > most) most = Math.abs(value);
      }
    }
    const { heat, signed: both, ground, bad } = colours();
    if (signed) return Uint32Array.from(cells, (value) => (Number.isFinite(value) ? both[signedStep(most ? value / most : 0)] : bad));
    return Uint32Array.from(cells, (value) => (value ? heat[heatStep(most > 1 ? (value - 1) / (most - 1) : 0.3)] : ground));
  }

  /** Place of an element among the values (laid out by shape) or the counts (laid out as memory). */
  private elementAt(byShape: boolean): (index: Int32Array) => number {
    const { shape, strides } = this.tensor;
    return (index) => {
      let at = 0;
      for (let dim = 0; dim < shape.length; dim++) at = byShape ? at * shape[dim] + index[dim] : at + index[dim] * strides[dim];
      return at;
    };
  }

  private describeTouch(touch: Touch, rows: number[]): void {
    const { picture, mapping, tensor } = this;
    const parts = [
      touch.loaded && `loads ${formatPlural(touch.loaded, "element")}`,
      touch.stored && `stores ${formatPlural(touch.stored, "element")}`,
      touch.atomic && `changes ${formatPlural(touch.atomic, "element")} atomically`,
    ].filter(Boolean);
    const where = touch.low.length ? ` within [${touch.low.map((low, dim) => `${low}:${touch.high[dim] + 1}`).join(", ")}]` : "";
    const faulty = rows.some((row) => this.use.isFaulty(row));
    const masked = touch.masked ? `; ${formatPlural(touch.masked, "lane")} masked${faulty ? " or out of bounds" : ""}` : "";
    this.status.textContent = rows.length
      ? `The program ${parts.length ? `${parts.join(", ")}${where}` : "touches nothing here"}${masked}${touch.outside ? `; ${formatPlural(touch.outside, "lane")} outside it` : ""}.`
      : "The program does not touch it.";
    const axes =
      mapping.row < 0
        ? this.window.columns < tensor.shape[mapping.column]
          ? `dimension ${mapping.column} in rows of ${mapping.width}`
          : "one row"
        : `rows: dimension ${mapping.row}, columns: dimension ${mapping.column}`;
    const cells = picture.scaled ? `; drawn smaller: a cell is ${picture.rowsPerCell} × ${picture.columnsPerCell} elements` : "";
    this.scale.textContent = `${axes}${cells}${this.legend()}`;
    picture.label(`Map of ${tensor.name}. ${this.status.textContent} Arrow keys read single elements; a table follows.`);
  }

  private legend(): string {
    const show = this.app.store.get("show");
    const { counts, tensor } = this;
    if (show === "before" || show === "after")
      return tensor.before
        ? "; values: blue below zero, orange above, the strongest is the largest magnitude shown"
        : "; no values recorded";
    if (show === "program") return "";
    if (counts === undefined) return "; counting …";
    if (counts === null) return "; too large to be counted here";
    const most =
      show === "programs"
        ? formatPlural(counts.mostPrograms, "program")
        : formatPlural(counts.mostAccesses, "access").replace("accesss", "accesses");
    return `; an element is touched by up to ${most}; ${formatCount(counts.touched)} elements touched, ${formatCount(counts.shared)} of them by several programs`;
  }

  private describe(row: number, column: number): TipText | null {
    const { app, tensor, mapping, window, picture } = this;
    const index = indexAt(mapping, window.top + row, window.left + column);
    const text = `${tensor.name}[${Array.from(index).join(", ")}]`;
    const lines: string[] = [];
    if (!inside(tensor, index)) lines.push("outside the tensor");
    if (picture.scaled) lines.push(`first of ${picture.rowsPerCell} × ${picture.columnsPerCell} elements`);
    const facts: Fact[] = [];
    if (inside(tensor, index)) {
      const value = this.elementAt(true)(index);
      if (tensor.before) facts.push(["value before", numberText(tensor.before[value])]);
      if (tensor.after) facts.push(["value after", numberText(tensor.after[value])]);
      const counted = this.elementAt(false)(index);
      if (this.counts)
        facts.push(
          ["accesses, all programs", formatCount(this.counts.accesses[counted])],
          ["programs", formatCount(this.counts.programs[counted])],
        );
    }
    const operations = this.use.touchedBy(index);
    facts.push(...operations.slice(0, MOST_LISTED));
    if (operations.length > MOST_LISTED) lines.push(`and ${formatCount(operations.length - MOST_LISTED)} more operations`);
    if (!operations.length) lines.push(`not touched by program (${app.ids().join(", ")})`);
    return { title: text, lines, facts };
  }

  /** Twin of the map: each operation of the program and the part of the tensor that it takes. */
  private table(): void {
    if (!this.details.open) return;
    const rows = this.use.rows();
    const lines = rows.slice(0, MOST_TABLE_ROWS).map((row) => {
      const { low, high, masked, loaded, stored, atomic } = this.use.touchOf([row]);
      const where = low.length ? low.map((from, dim) => `${from}:${high[dim] + 1}`).join(", ") : "none";
      const { app } = this;
      return [
        `${app.programRows.indexOf(row)} ${app.opName(row)}`,
        String(app.line(row)),
        `[${where}]`,
        formatCount(loaded + stored + atomic),
        formatCount(masked),
      ];
    });
    const cut =
      rows.length > MOST_TABLE_ROWS
        ? h("p", { class: "quiet", text: `The first ${MOST_TABLE_ROWS} of ${formatCount(rows.length)}.` })
        : null;
    replace(
      this.details,
      this.details.querySelector("summary"),
      h("div", { class: "scroll" }, table(["Operation", "Line", "Elements", "Active lanes", "Masked lanes"], lines)),
      cut,
    );
  }
}
