// A table of any length of which only the rows in sight are in the document; they are used again while it scrolls.
import type { Column, Table } from "../../data/table";
import { h } from "../../../shared/dom";
import { shareOut, shownColumns, widthOf, type Width } from "./cells";
import { Heads } from "./heads";
import { ROW_HEIGHT, RowPool } from "./pool";
import type { Sort } from "../../state";

const HEAD_HEIGHT = 28;
const PADDING = 20; // of a cell, left and right together, and a line between columns
const SPARE_ROWS = 6;
// Browsers stop at some 17 million pixels (Firefox): a longer table scrolls by more than its own pixels.
const TALLEST = 8_000_000;
const TALLEST_VIEW = 640;

export interface Handlers {
  sort(column: Column): void;
  /** A row of the table was chosen, by mouse or keys. */
  select(row: number): void;
  /** Enter, or a double click. */
  open(row: number): void;
}

export class VirtualTable {
  readonly element = h("div", { class: "tv" });
  private readonly grid = h("div", { class: "tv-grid", attrs: { role: "grid", tabindex: "0" } });
  private readonly body = h("div", { class: "tv-body", attrs: { role: "rowgroup" } });
  private readonly heads: Heads;
  private readonly pool: RowPool;
  private table: Table | null = null;
  private widths: Width[] = [];
  private order: Uint32Array = new Uint32Array(0);
  private selected = -1;
  private frame = 0;
  private characterWidth = 0;

  constructor(private readonly handlers: Handlers) {
    this.heads = new Heads((column) => handlers.sort(column));
    this.pool = new RowPool(this.body);
    this.grid.append(h("div", { class: "tv-head", attrs: { role: "rowgroup" } }, this.heads.element), this.body);
    this.element.append(this.grid, this.heads.help);
    this.grid.addEventListener("scroll", () => this.later(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.clicked(event, (row) => this.choose(row)));
    this.body.addEventListener("dblclick", (event) => this.clicked(event, (row) => handlers.open(row)));
    new ResizeObserver(() => this.layOut()).observe(this.grid);
  }

  show(table: Table, label: string): void {
    this.table = table;
    this.selected = -1;
    const columns = shownColumns(table);
    this.widths = columns.map((column, at) => widthOf(table, column, at === 0));
    this.heads.show(columns);
    this.grid.setAttribute("aria-label", label);
    this.grid.setAttribute("aria-colcount", String(columns.length));
    this.pool.use(table, columns);
    this.grid.scrollLeft = 0;
  }

  /** The rows to show, in order. */
  arrange(order: Uint32Array, sort: Sort | null): void {
    this.order = order;
    this.heads.mark(sort);
    this.grid.setAttribute("aria-rowcount", String(order.length + 1));
    const wanted = order.length * ROW_HEIGHT + HEAD_HEIGHT + 16;
    this.grid.style.height = `min(${Math.min(TALLEST_VIEW, Math.max(wanted, 4 * ROW_HEIGHT))}px, 70vh)`;
    this.body.style.height = `${Math.min(order.length * ROW_HEIGHT, TALLEST)}px`;
    this.grid.scrollTop = 0;
    this.layOut();
  }

  /** Marks this text wherever it stands. */
  search(text: string): void {
    this.pool.search = text.toLowerCase();
    this.pool.forget();
    this.draw();
  }

  /** Marks a row of the table as the selected one, -1 for none. */
  select(row: number, reveal: boolean): void {
    this.selected = row;
    if (reveal && row >= 0) this.reveal(this.order.indexOf(row));
    this.draw();
  }

  focus(): void {
    this.grid.focus({ preventScroll: true });
  }

  private layOut(): void {
    if (!this.table) return;
    this.characterWidth ||= measureCharacter(this.grid);
    const room = (this.grid.clientWidth - PADDING * this.widths.length) / this.characterWidth;
    const characters = shareOut(this.widths, Math.floor(room));
    this.pool.resize(Math.ceil(this.viewHeight / ROW_HEIGHT) + SPARE_ROWS);
    if (this.pool.widen(characters)) this.widen(characters.map((count) => Math.ceil(count * this.characterWidth) + PADDING));
    this.draw();
  }

  private widen(pixels: number[]): void {
    pixels.forEach((width, at) => this.grid.style.setProperty(`--w${at}`, `${width}px`));
    const total = pixels.reduce((sum, width) => sum + width, 0);
    this.heads.element.style.width = this.body.style.width = `max(100%, ${total}px)`;
  }

  private get viewHeight(): number {
    return Math.max(ROW_HEIGHT, this.grid.clientHeight - HEAD_HEIGHT);
  }
  /** Rows that fit in the view, and how far its top can move down, in rows and in pixels. */
  private get travel(): { fit: number; rows: number; pixels: number } {
    const fit = this.viewHeight / ROW_HEIGHT;
    const height = Math.min(this.order.length * ROW_HEIGHT, TALLEST);
    return { fit, rows: Math.max(0, this.order.length - fit), pixels: Math.max(0, height - this.viewHeight) };
  }

  private later(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { rows, pixels } = this.travel;
    const { scrollTop } = this.grid;
    const first = pixels ? Math.min(scrollTop / pixels, 1) * rows : 0;
    const selectedRow = this.pool.draw(this.order, first, scrollTop, this.selected);
    if (selectedRow) this.grid.setAttribute("aria-activedescendant", selectedRow);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  private reveal(position: number): void {
    if (position < 0) return;
    const { fit, rows, pixels } = this.travel;
    if (!rows) return;
    const first = (this.grid.scrollTop / pixels) * rows;
    // Where a pixel stands for more than itself, whole pixels would cut the row off.
    const below = position + (rows * ROW_HEIGHT > pixels + 1 ? 2 : 1);
    const to = position < first ? position : below > first + fit ? below - fit : first;
    if (to !== first) this.grid.scrollTop = (Math.min(to, rows) / rows) * pixels;
  }

  private clicked(event: MouseEvent, act: (row: number) => void): void {
    const position = this.pool.placeOf(event.target as Element);
    if (position >= 0 && position < this.order.length) act(this.order[position]);
  }

  private choose(row: number): void {
    this.select(row, true);
    this.handlers.select(row);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.order.length) return;
    if (event.key === "Enter" && this.selected >= 0) this.handlers.open(this.selected);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.grid.scrollLeft += event.key === "ArrowLeft" ? -120 : 120;
    else {
      const position = this.placeAfter(event.key);
      if (position === null) return;
      this.choose(this.order[Math.max(0, Math.min(this.order.length - 1, position))]);
    }
    event.preventDefault();
  }

  private placeAfter(key: string): number | null {
    const position = this.selected < 0 ? -1 : this.order.indexOf(this.selected);
    const page = Math.max(1, Math.floor(this.travel.fit) - 1);
    const last = this.order.length - 1;
    return (
      { ArrowDown: position + 1, ArrowUp: position - 1, PageDown: position + page, PageUp: position - page, Home: 0, End: last }[key] ??
      null
    );
  }
}

function measureCharacter(host: HTMLElement): number {
  const probe = h("span", { class: "tv-probe", text: "0".repeat(100) });
  host.append(probe);
  const width = probe.getBoundingClientRect().width / 100;
  probe.remove();
  return width || 7;
}
