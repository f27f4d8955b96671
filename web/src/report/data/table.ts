// A table of the report, or one made for a selection: named, explained columns of numbers or texts.
import type { DecodedColumn, DecodedTable } from "./decode";
import { formatNumber } from "../../shared/format";

export type Column = DecodedColumn;

export class Table {
  readonly name: string;
  readonly meaning: string;
  readonly notes: string[];
  readonly rows: number;
  readonly columns: Column[];

  constructor(
    source: DecodedTable,
    readonly texts: string[],
    /** False where the table is about the whole trace although only a part of it is selected. */
    readonly followsSelection = true,
    /** Per row the row of the whole table that it was picked from; null: the same. */
    readonly origin: ArrayLike<number> | null = null,
  ) {
    this.name = source.name;
    this.meaning = source.meaning;
    this.notes = source.notes;
    this.rows = source.rows;
    this.columns = source.columns;
  }

  has(name: string): boolean {
    return this.columns.some((column) => column.name === name);
  }
  column(name: string): Column {
    const column = this.columns.find((candidate) => candidate.name === name);
    if (!column) throw new Error(`table ${this.name} has no column ${name}`);
    return column;
  }
  number(name: string, row: number): number {
    return this.column(name).values[row];
  }
  text(name: string, row: number): string {
    return this.textOf(this.column(name), row);
  }
  /** A cell as exact text: what a CSV holds. */
  textOf(column: Column, row: number): string {
    const value = column.values[row];
    if (column.kind === "text") return value < 0 ? "" : this.texts[value];
    if (Number.isNaN(value)) return "";
    return column.kind === "bool" ? (value ? "true" : "false") : String(value);
  }
  /** A cell for people: numbers rounded to what matters. */
  shown(column: Column, row: number): string {
    if (column.kind !== "number") return column.kind === "bool" ? (column.values[row] ? "yes" : "") : this.textOf(column, row);
    const value = column.values[row];
    return Number.isNaN(value) ? "" : formatNumber(value, column.unit);
  }
  /** The first row with this text in a column, -1 where there is none. */
  find(name: string, text: string): number {
    const column = this.column(name);
    for (let row = 0; row < this.rows; row++) if (this.textOf(column, row) === text) return row;
    return -1;
  }

  /** The place that a row has in the whole table, whatever is selected. */
  originOf(row: number): number {
    return this.origin ? this.origin[row] : row;
  }
  /** The row that stands for a row of the whole table, -1 where the selection has none. */
  rowFrom(origin: number): number {
    if (this.origin) return Array.prototype.indexOf.call(this.origin, origin);
    return origin >= 0 && origin < this.rows ? origin : -1;
  }

  /** The same with one more note. */
  noted(note: string): Table {
    return note ? new Table({ ...this, notes: [...this.notes, note] }, this.texts, this.followsSelection, this.origin) : this;
  }

  /** The same columns with other rows. */
  pick(rows: ArrayLike<number>): Table {
    const columns = this.columns.map((column) => ({ ...column, values: pickValues(column.values, rows) }));
    const origin = Uint32Array.from(rows, (row) => this.originOf(row));
    return new Table({ name: this.name, meaning: this.meaning, notes: this.notes, rows: rows.length, columns }, this.texts, true, origin);
  }
  /** The same rows with some columns' numbers replaced. */
  with(replaced: Record<string, Float64Array>): Table {
    const columns = this.columns.map((column) => (replaced[column.name] ? { ...column, values: replaced[column.name] } : column));
    return new Table(
      { name: this.name, meaning: this.meaning, notes: this.notes, rows: this.rows, columns },
      this.texts,
      true,
      this.origin,
    );
  }
}

function pickValues<T extends Float64Array | Int32Array>(values: T, rows: ArrayLike<number>): T {
  const picked = values.slice(0, rows.length) as T;
  for (let i = 0; i < rows.length; i++) picked[i] = values[rows[i]];
  return picked;
}
