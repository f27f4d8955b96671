// Tables that the page makes itself, and the way from any table's name to its rows.
import type { App, Target } from "../../app";
import { Table } from "../../data/table";

/** Tables beside the report's own, by name; each is built when it is first shown for a selection. */
export const extraTables = new Map<string, (app: App) => Table>();

export interface ExtraFacts {
  /** How many rows it has for the whole trace, where that is known without building it. */
  rows?: (app: App) => number;
  /** What else than the selection it depends on. */
  key?: (app: App) => string;
  /** Where a row leads; rows are given as `table.originOf(row)`. */
  target?: (app: App, origin: number) => Target | null;
}
/** What else is known about them; no entry is needed. */
export const extraFacts = new Map<string, ExtraFacts>();

const tablesByOwner = new WeakMap<object, Map<string, Table>>();

export function knowsTable(app: App, name: string): boolean {
  return app.hasTable(name) || extraTables.has(name);
}

/** The table for what is selected, from the report or made here. */
export function tableFor(app: App, name: string): Table {
  const build = extraTables.get(name);
  if (!build) return app.table(name);
  const owner = app.scene ? app.selection : app;
  let tables = tablesByOwner.get(owner);
  if (!tables) tablesByOwner.set(owner, (tables = new Map<string, Table>()));
  const key = `${name} ${extraFacts.get(name)?.key?.(app) ?? ""}`;
  let table = tables.get(key);
  if (!table) tables.set(key, (table = build(app)));
  return table;
}

/** Rows of the whole table, NaN where that is not known without building it. */
export function wholeRows(app: App, name: string): number {
  if (extraTables.has(name)) return extraFacts.get(name)?.rows?.(app) ?? NaN;
  return app.wholeTable(name).rows;
}
