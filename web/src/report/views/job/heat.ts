// A heat map on a canvas: hover and arrow keys name a cell, a click or Enter opens it.
import { isDark, mixed } from "../../../shared/colours";
import { h } from "../../../shared/dom";
import { Tip, type Fact } from "../../../shared/tip";
import { pageColours } from "../timeline/page-colours";
import { sharpCanvas } from "../timeline/sharp";
import { CanvasSurface } from "../timeline/surface";
import { textWidth } from "../timeline/text";
import { binned, labelStep, scaleOf, shareOf, tones, type Binned, type Grid, type Scale } from "./grid";

const TALLEST = 440;
const CELL = { height: 20, width: 64 };
const WIDEST = 320; // of a cell where a row is as wide as the page
const AXIS = 34;
const GAP = 3;
const SHADES = 128;
const MATRIX_WIDTH = 640;

export interface HeatWords {
  /** What the picture shows, for people who do not see it. */
  label: string;
  rowTitle: string;
  columnTitle: string;
  row(row: number): string;
  column(column: number): string;
  cell(row: number, column: number): [title: string, facts: Fact[]];
  format(value: number): string;
  open(row: number, column: number): void;
}

export class Heat {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  private readonly ends = [h("span"), h("span")];
  private readonly ramp = h("i", { class: "job-ramp" });
  private readonly spoken = h("p", { class: "offscreen", attrs: { "aria-live": "polite" } });
  private readonly stage: HTMLElement;
  private readonly tip = new Tip();
  private grid: Grid = { rows: 0, columns: 0, values: new Float64Array() };
  private bins: Binned = binned(this.grid, 1, 1);
  private scale: Scale = scaleOf([]);
  private cursor: [row: number, column: number] | null = null;
  private cell: [width: number, height: number] = [1, 1];
  private left = 0;
  private width = 0;

  constructor(
    private readonly words: HeatWords,
    private readonly isMatrix = false,
  ) {
    this.stage = h("div", { class: "job-heat", attrs: { tabindex: "0", role: "application", "aria-label": words.label } }, this.canvas);
    const legend = h("div", { class: "job-scale quiet", attrs: { role: "img" } }, this.ends[0], this.ramp, this.ends[1]);
    this.element = h("div", {}, this.stage, legend, this.spoken);
    this.listen();
    new ResizeObserver(() => this.stage.clientWidth !== this.width && this.draw()).observe(this.stage);
  }

  show(grid: Grid): void {
    this.grid = grid;
    this.scale = scaleOf(grid.values, this.isMatrix);
    this.draw();
  }

  draw(): void {
    this.width = this.stage.clientWidth;
    const { rows, columns } = this.grid;
    if (!this.width || !rows || !columns) return;
    this.left = this.gutter();
    // A matrix of ranks has about as many pixels in both directions.
    const room = Math.min(this.width - this.left - 2, this.isMatrix ? MATRIX_WIDTH : Infinity);
    this.bins = binned(this.grid, TALLEST, room);
    const { bins } = this;
    this.cell = [
      Math.max(1, Math.min(this.isMatrix ? CELL.width : WIDEST, Math.floor(room / bins.columns))),
      Math.max(1, Math.min(CELL.height, Math.floor(TALLEST / bins.rows))),
    ];
    const height = bins.rows * this.cell[1] + AXIS;
    const surface = new CanvasSurface(sharpCanvas(this.canvas, this.width, height));
    surface.rect(0, 0, this.width, height, pageColours().background);
    this.paintCells(surface);
    this.paintAxes(surface);
    this.paintCursor(surface);
    this.showScale();
  }

  private gutter(): number {
    const longest = Math.max(...[0, this.grid.rows - 1].map((row) => textWidth(this.words.row(row))));
    return Math.ceil(Math.max(longest, textWidth(this.words.rowTitle)) + 12);
  }

  private paintCells(surface: CanvasSurface): void {
    const { bins, scale } = this;
    const [width, height] = this.cell;
    // Mixed once per picture: a matrix of 1,000 ranks has over 100,000 cells.
    const ramp = rampOf(tones(isDark()));
    const hair = [width > GAP * 2 ? 1 : 0, height > GAP * 2 ? 1 : 0];
    for (let row = 0; row < bins.rows; row++) {
      for (let column = 0; column < bins.columns; column++) {
        const value = bins.values[row * bins.columns + column];
        if (Number.isNaN(value)) continue;
        surface.rect(
          this.left + column * width,
          row * height,
          width - hair[0],
          height - hair[1],
          ramp[Math.round(shareOf(value, scale) * (ramp.length - 1))],
        );
      }
    }
  }

  private paintAxes(surface: CanvasSurface): void {
    const { bins, words } = this;
    const { quiet } = pageColours();
    const [width, height] = this.cell;
    const bottom = bins.rows * height;
    const rowStep = labelStep(this.grid.rows, height / bins.perRow, 13);
    for (let row = 0; row < this.grid.rows; row += rowStep) {
      const y = (Math.floor(row / bins.perRow) + 0.5) * height;
      const text = words.row(row);
      surface.text(this.left - 6 - textWidth(text), y, text, quiet);
    }
    const widest = Math.max(...[0, this.grid.columns - 1].map((column) => textWidth(words.column(column))));
    const columnStep = labelStep(this.grid.columns, width / bins.perColumn, widest + 8);
    for (let column = 0; column < this.grid.columns; column += columnStep) {
      const text = words.column(column);
      const x = this.left + (Math.floor(column / bins.perColumn) + 0.5) * width - textWidth(text) / 2;
      surface.text(Math.max(this.left, Math.min(x, this.width - textWidth(text))), bottom + 9, text, quiet);
    }
    surface.text(0, bottom + 9, words.rowTitle, quiet);
    surface.text(this.left, bottom + 25, words.columnTitle, quiet);
  }

  private paintCursor(surface: CanvasSurface): void {
    if (!this.cursor) return;
    const [width, height] = this.cell;
    const [row, column] = [Math.floor(this.cursor[0] / this.bins.perRow), Math.floor(this.cursor[1] / this.bins.perColumn)];
    const { path } = pageColours();
    surface.outline(this.left + column * width, row * height, Math.max(3, width - 1), Math.max(3, height - 1), path);
  }

  private showScale(): void {
    const { low, high, clipped } = this.scale;
    this.ends[0].textContent = this.words.format(low);
    this.ends[1].textContent = `${clipped ? "≥ " : ""}${this.words.format(high)}${this.bins.perRow * this.bins.perColumn > 1 ? " (the largest of what shares a pixel)" : ""}`;
    this.ramp.style.background = `linear-gradient(to right, ${tones(isDark()).join(", ")})`;
  }

  private listen(): void {
    const { stage } = this;
    stage.addEventListener("pointermove", (event) => {
      const at = this.at(event);
      stage.style.cursor = at ? "pointer" : "";
      if (at) this.explain(at, event.clientX, event.clientY);
      else this.tip.hide();
    });
    stage.addEventListener("pointerleave", () => this.tip.hide());
    stage.addEventListener("blur", () => this.tip.hide());
    stage.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at) this.words.open(...at);
    });
    stage.addEventListener("keydown", (event) => this.key(event));
  }

  /** The cell under the pointer: of several in one pixel the one with the largest value. */
  private at(event: MouseEvent): [number, number] | null {
    const { left, top } = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - left - this.left) / this.cell[0]);
    const row = Math.floor((event.clientY - top) / this.cell[1]);
    if (column < 0 || row < 0 || column >= this.bins.columns || row >= this.bins.rows) return null;
    const cell = this.bins.cells[row * this.bins.columns + column];
    return cell < 0 ? null : [Math.floor(cell / this.grid.columns), cell % this.grid.columns];
  }

  private explain([row, column]: [number, number], x: number, y: number): void {
    const [title, facts] = this.words.cell(row, column);
    this.tip.show(title, [], facts, x, y);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (event.key === "Enter" && this.cursor) this.words.open(...this.cursor);
    else if (move) this.moveCursor(move);
    else return;
    event.preventDefault();
  }

  private moveCursor([down, right]: [number, number]): void {
    const within = (value: number, count: number): number => Math.max(0, Math.min(count - 1, value));
    const [row, column] = this.cursor ?? [-Math.max(0, down), -Math.max(0, right)];
    this.cursor = [within(row + down, this.grid.rows), within(column + right, this.grid.columns)];
    this.draw();
    const { left, top } = this.canvas.getBoundingClientRect();
    const [width, height] = this.cell;
    const x = left + this.left + (Math.floor(this.cursor[1] / this.bins.perColumn) + 1) * width;
    this.explain(this.cursor, x, top + (Math.floor(this.cursor[0] / this.bins.perRow) + 1) * height);
    const [title, facts] = this.words.cell(...this.cursor);
    this.spoken.textContent = `${title}: ${facts.map((fact) => fact.join(" ")).join(", ")}`;
  }
}

function rampOf(colours: string[]): string[] {
  return Array.from({ length: SHADES }, (_, shade) => {
    const at = (shade / (SHADES - 1)) * (colours.length - 1);
    const below = Math.min(colours.length - 2, Math.floor(at));
    return mixed(colours[below], colours[below + 1], at - below);
  });
}
