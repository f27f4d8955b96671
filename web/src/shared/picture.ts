// A picture made of cells: painted pixel by pixel, read with the pointer or with the arrow keys.
import { h } from "./dom";
import type { Fact, Tip } from "./tip";

export interface TipText {
  title: string;
  lines?: string[];
  facts?: Fact[];
}
interface Options {
  label: string;
  tip: Tip;
  /** What is at a row and a column. */
  describe: (row: number, column: number) => TipText | null;
  choose?: (row: number, column: number) => void;
  move?: (row: number, column: number) => void;
}

const LARGEST_CELL_PX = 16;
const WIDEST = 4; // how many times higher than wide a cell may be
const HATCH_PX = 5;
const SMALLEST_TEXT_PX = 7;
const LARGEST_TEXT_PX = 13;
const TEXT_HEIGHT = 0.62; // of a cell
const TEXT_WIDTH = 0.62; // of a character, in its size
const GAP_FROM_PX = 8; // smaller cells have no lines between them

export class Picture {
  readonly canvas = h("canvas");
  readonly cursor = h("div", { class: "cursor", attrs: { hidden: "" } });
  readonly element: HTMLElement;
  rows = 1;
  columns = 1;
  /** Elements per cell. */
  rowsPerCell = 1;
  columnsPerCell = 1;
  cellRows = 1;
  cellColumns = 1;
  private cellHeight = 1;
  private cellWidth = 1;
  private pixels = new ImageData(1, 1);
  private at: [number, number] = [0, 0];

  constructor(private readonly options: Options) {
    const { label } = options;
    this.element = h(
      "div",
      {
        class: "picture",
        attrs: { role: "application", tabindex: "0", "aria-label": label, "aria-roledescription": "picture; arrow keys read it" },
        on: {
          pointermove: (event) => this.point(event),
          pointerleave: () => this.leave(),
          blur: () => this.leave(),
          click: (event) => {
            const cell = this.placeAt(event);
            if (cell) options.choose?.(...cell);
          },
          keydown: (event) => this.key(event),
        },
      },
      this.canvas,
      this.cursor,
    );
  }

  label(text: string): void {
    this.element.setAttribute("aria-label", text);
  }

  /** Fits rows × columns into a box; what is too many is put together in cells. */
  fit(rows: number, columns: number, width: number, height: number, largest = LARGEST_CELL_PX): void {
    this.rows = rows;
    this.columns = columns;
    this.rowsPerCell = Math.max(1, Math.ceil(rows / height));
    this.columnsPerCell = Math.max(1, Math.ceil(columns / width));
    this.cellRows = Math.max(1, Math.ceil(rows / this.rowsPerCell));
    this.cellColumns = Math.max(1, Math.ceil(columns / this.columnsPerCell));
    this.cellWidth = Math.max(1, Math.min(largest, Math.floor(width / this.cellColumns)));
    this.cellHeight = Math.max(1, Math.min(largest, Math.floor(height / this.cellRows), WIDEST * this.cellWidth));
    this.cellWidth = Math.min(this.cellWidth, WIDEST * this.cellHeight);
    const [w, t] = [this.cellColumns * this.cellWidth, this.cellRows * this.cellHeight];
    if (this.canvas.width !== w || this.canvas.height !== t) {
      this.canvas.width = w;
      this.canvas.height = t;
    }
    this.element.classList.toggle("is-fine", this.cellWidth < 2 || this.cellHeight < 2);
    if (this.pixels.width !== w || this.pixels.height !== t) this.pixels = new ImageData(w, t);
    this.at = [Math.min(this.at[0], rows - 1), Math.min(this.at[1], columns - 1)];
  }

  get scaled(): boolean {
    return this.rowsPerCell > 1 || this.columnsPerCell > 1;
  }

  /** `fill` of each cell; `line` parts large cells; `stripes` are drawn over it where not 0; `edge` frames cells in `ink`. */
  paint(fill: Uint32Array, line: number, stripes?: Uint32Array | null, edge?: Uint8Array | null, ink = 0): void {
    const out = new Uint32Array(this.pixels.data.buffer);
    if (this.cellWidth > 1 || this.cellHeight > 1) this.fillCells(out, fill, line, stripes ?? null);
    else this.fillPixels(out, fill, stripes ?? null);
    if (edge) this.frame(out, edge, ink);
    this.canvas.getContext("2d")?.putImageData(this.pixels, 0, 0);
  }

  /** A pixel per cell: half a million of them have to take no time. */
  private fillPixels(out: Uint32Array, fill: Uint32Array, stripes: Uint32Array | null): void {
    out.set(fill);
    if (!stripes) return;
    for (let row = 0, cell = 0; row < this.cellRows; row++) {
      for (let column = 0; column < this.cellColumns; column++, cell++) {
        if (stripes[cell] && (row + column) % HATCH_PX < 2) out[cell] = stripes[cell];
      }
    }
  }

  private fillCells(out: Uint32Array, fill: Uint32Array, line: number, stripes: Uint32Array | null): void {
    const { width } = this.pixels;
    const [w, t] = [this.cellWidth, this.cellHeight];
    const gap = w >= GAP_FROM_PX && t >= GAP_FROM_PX;
    for (let row = 0, cell = 0; row < this.cellRows; row++) {
      for (let column = 0; column < this.cellColumns; column++, cell++) {
        const stripe = stripes ? stripes[cell] : 0;
        const [left, top] = [column * w, row * t];
        for (let y = top; y < top + t; y++) {
          const start = y * width;
          const last = gap && y === top + t - 1;
          for (let x = left; x < left + w; x++) {
            out[start + x] = last || (gap && x === left + w - 1) ? line : stripe && (x + y) % HATCH_PX < 2 ? stripe : fill[cell];
          }
        }
      }
    }
  }

  /** The border between marked cells and others. */
  private frame(out: Uint32Array, edge: Uint8Array, ink: number): void {
    const { width } = this.pixels;
    const [w, t, rows, columns] = [this.cellWidth, this.cellHeight, this.cellRows, this.cellColumns];
    // One pixel is hard to see where cells are that small.
    const near = w < 3 || t < 3 ? 2 : 1;
    for (let row = 0, cell = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++, cell++) {
        if (!edge[cell]) continue;
        const above = row >= near && edge[cell - near * columns];
        const below = row < rows - near && edge[cell + near * columns];
        const before = column >= near && edge[cell - near];
        const after = column < columns - near && edge[cell + near];
        if (above && below && before && after) continue;
        const [left, top] = [column * w, row * t];
        if (!above) out.fill(ink, top * width + left, top * width + left + w);
        if (!below) out.fill(ink, (top + t - 1) * width + left, (top + t - 1) * width + left + w);
        for (let y = top; y < top + t; y++) {
          if (!before) out[y * width + left] = ink;
          if (!after) out[y * width + left + w - 1] = ink;
        }
      }
    }
  }

  /** A short text in each cell that is large enough; once for neighbours with the same. `null` leaves a cell empty. */
  write(textOf: (cell: number) => [text: string, colour: string] | null): void {
    const context = this.canvas.getContext("2d");
    if (!context || this.cellHeight * TEXT_HEIGHT < SMALLEST_TEXT_PX) return;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let row = 0; row < this.cellRows; row++) {
      for (let column = 0, end; column < this.cellColumns; column = end) {
        const [text, colour] = textOf(row * this.cellColumns + column) ?? ["", ""];
        end = column + 1;
        while (end < this.cellColumns && textOf(row * this.cellColumns + end)?.[0] === text) end++;
        const width = (end - column) * this.cellWidth;
        const size = Math.floor(Math.min(this.cellHeight * TEXT_HEIGHT, (width - 2) / (text.length * TEXT_WIDTH), LARGEST_TEXT_PX));
        if (!text || size < SMALLEST_TEXT_PX) continue;
        context.font = `${size}px ui-monospace, "DejaVu Sans Mono", monospace`;
        context.fillStyle = colour;
        context.fillText(text, column * this.cellWidth + width / 2 - 0.5, (row + 0.5) * this.cellHeight);
      }
    }
  }

  cellOf(row: number, column: number): number {
    return Math.floor(row / this.rowsPerCell) * this.cellColumns + Math.floor(column / this.columnsPerCell);
  }

  /** A frame around a row and a column that stays, such as the chosen program's. */
  place(box: HTMLElement, row: number, column: number): void {
    const scale = this.scale();
    box.hidden = row < 0 || column < 0 || row >= this.rows || column >= this.columns;
    box.style.left = `${Math.floor(column / this.columnsPerCell) * this.cellWidth * scale}px`;
    box.style.top = `${Math.floor(row / this.rowsPerCell) * this.cellHeight * scale}px`;
    box.style.width = `${Math.max(3, this.cellWidth * scale)}px`;
    box.style.height = `${Math.max(3, this.cellHeight * scale)}px`;
  }

  /** Reads out a place, as the arrow keys do. */
  read(row: number, column: number): void {
    this.at = [row, column];
    this.place(this.cursor, row, column);
    const box = this.cursor.getBoundingClientRect();
    this.say(row, column, box.right, box.bottom);
  }

  private scale(): number {
    return this.canvas.clientWidth ? this.canvas.clientWidth / this.canvas.width : 1;
  }

  private placeAt(event: MouseEvent): [number, number] | null {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((((event.clientX - box.left) / box.width) * this.canvas.width) / this.cellWidth) * this.columnsPerCell;
    const row = Math.floor((((event.clientY - box.top) / box.height) * this.canvas.height) / this.cellHeight) * this.rowsPerCell;
    return row >= 0 && column >= 0 && row < this.rows && column < this.columns ? [row, column] : null;
  }

  private point(event: PointerEvent): void {
    const cell = this.placeAt(event);
    if (!cell) return this.leave();
    if (event.buttons & 1) this.options.choose?.(...cell);
    this.place(this.cursor, ...cell);
    this.say(...cell, event.clientX, event.clientY);
  }

  private say(row: number, column: number, x: number, y: number): void {
    this.options.move?.(row, column);
    const text = this.options.describe(row, column);
    if (text) this.options.tip.show(text.title, text.lines ?? [], text.facts ?? [], x, y);
    else this.options.tip.hide();
  }

  private leave(): void {
    this.cursor.hidden = true;
    this.options.tip.hide();
    this.options.move?.(-1, -1);
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    };
    const step = steps[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.options.choose?.(...this.at);
    } else if (event.key === "Escape") {
      this.leave();
    } else if (step) {
      event.preventDefault();
      const move = (now: number, by: number, per: number, size: number): number => Math.min(size - 1, Math.max(0, now + by * per));
      const far = event.shiftKey ? 8 : 1;
      this.read(
        move(this.at[0], step[0] * far, this.rowsPerCell, this.rows),
        move(this.at[1], step[1] * far, this.columnsPerCell, this.columns),
      );
    }
  }

  /** Where the keys begin. */
  start(row: number, column: number): void {
    this.at = [row, column];
  }
}

/** #rrggbb as a pixel of ImageData. */
export function pixel(colour: string): number {
  const value = parseInt(colour.slice(1, 7), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}
