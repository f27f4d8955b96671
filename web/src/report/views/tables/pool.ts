// The rows of a virtual table that are in the document: one element for each place in sight, used again on scrolling.
import type { Column, Table } from "../../data/table";
import { h } from "../../../shared/dom";
import { cellText, elided, fillMarked } from "./cells";

export const ROW_HEIGHT = 24;

interface PooledRow {
  element: HTMLElement;
  cells: HTMLElement[];
  /** The table's row that it shows now, -1: none. */
  row: number;
  position: number;
  top: number;
}

/** Widths are set once for all rows. */
export function columnWidth(at: number): string {
  return `var(--w${at})`;
}

let tables = 0;

export class RowPool {
  /** What is searched for, in lower case. */
  search = "";
  private rows: PooledRow[] = [];
  private table: Table | null = null;
  private columns: Column[] = [];
  private characters: number[] = [];
  private readonly id = `tv${tables++}`;

  constructor(private readonly host: HTMLElement) {}

  use(table: Table, columns: Column[]): void {
    this.table = table;
    this.columns = columns;
    this.rows = [];
    this.characters = [];
    this.host.replaceChildren();
  }

  resize(count: number): void {
    if (count === this.rows.length) return;
    while (this.rows.length > count) this.rows.pop()?.element.remove();
    while (this.rows.length < count) this.add();
  }

  /** How many characters each column shows; false where that is as before. */
  widen(characters: number[]): boolean {
    if (characters.length === this.characters.length && characters.every((count, at) => count === this.characters[at])) return false;
    this.characters = characters;
    this.forget();
    return true;
  }

  /** Fills every row again at the next drawing. */
  forget(): void {
    for (const pooled of this.rows) pooled.row = -1;
  }

  /** Shows the rows from a place on; the id of the selected one, "" where it is not in sight. */
  draw(order: Uint32Array, first: number, scrollTop: number, selected: number): string {
    let active = "";
    const from = Math.max(0, Math.floor(first) - 2);
    for (let position = from; position < from + this.rows.length; position++) {
      const pooled = this.rows[position % this.rows.length];
      pooled.element.hidden = position >= order.length;
      if (pooled.element.hidden) {
        pooled.position = pooled.row = -1;
        continue;
      }
      this.put(pooled, position, scrollTop + (position - first) * ROW_HEIGHT);
      if (pooled.row !== order[position]) this.fill(pooled, order[position]);
      const isSelected = pooled.row === selected;
      if (isSelected) active = pooled.element.id;
      pooled.element.setAttribute("aria-selected", String(isSelected));
    }
    return active;
  }

  placeOf(target: Element): number {
    const element = target.closest(".tv-row");
    return this.rows.find((pooled) => pooled.element === element)?.position ?? -1;
  }

  private add(): void {
    const cells = this.columns.map(({ kind, unit }, at) =>
      h("div", { class: `tv-cell ${kind}${unit === "%" ? " share" : ""}`, attrs: { role: "gridcell", "aria-colindex": String(at + 1) } }),
    );
    cells.forEach((cell, at) => (cell.style.width = columnWidth(at)));
    const element = h("div", { class: "tv-row", id: `${this.id}-${this.rows.length}`, attrs: { role: "row" } }, ...cells);
    this.host.append(element);
    this.rows.push({ element, cells, row: -1, position: -1, top: NaN });
  }

  private put(pooled: PooledRow, position: number, top: number): void {
    if (pooled.position !== position) {
      pooled.position = position;
      pooled.element.setAttribute("aria-rowindex", String(position + 2));
      pooled.element.classList.toggle("odd", position % 2 === 1);
    }
    if (Math.abs(pooled.top - top) < 0.01) return;
    pooled.top = top;
    pooled.element.style.transform = `translateY(${top}px)`;
  }

  private fill(pooled: PooledRow, row: number): void {
    const { table, search } = this;
    if (!table) return;
    pooled.row = row;
    this.columns.forEach((column, at) => {
      const cell = pooled.cells[at];
      const full = cellText(table, column, row);
      const shown = elided(full, this.characters[at]);
      if (search && column.kind === "text") fillMarked(cell, shown, full, search);
      else cell.textContent = shown;
      if (shown !== full) cell.title = full;
      else if (cell.title) cell.removeAttribute("title");
      if (column.unit === "%") cell.style.setProperty("--share", `${Math.max(0, Math.min(100, column.values[row] || 0))}%`);
    });
  }
}
