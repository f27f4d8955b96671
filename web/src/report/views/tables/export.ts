// Rows for other programs: CSV with the exact values, or one row as JSON.
import type { Column, Table } from "../../data/table";

/** RFC 4180: the columns' names, then the rows as they are shown. */
export function csvOf(table: Table, order: ArrayLike<number>): string {
  const lines = [table.columns.map(({ name }) => csvCell(name)).join(",")];
  for (let position = 0; position < order.length; position++) {
    lines.push(table.columns.map((column) => csvCell(table.textOf(column, order[position]))).join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

function csvCell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function jsonOf(table: Table, row: number): string {
  return JSON.stringify(Object.fromEntries(table.columns.map((column) => [column.name, jsonValue(table, column, row)])), null, 2);
}

function jsonValue(table: Table, column: Column, row: number): string | number | boolean | null {
  const value = column.values[row];
  if (column.kind === "text") return value < 0 ? null : table.texts[value];
  if (Number.isNaN(value)) return null;
  return column.kind === "bool" ? Boolean(value) : value;
}
