// What the reader of a kernel trace has chosen. Keys and spellings are those of every link ever shared: they stay.
import { count, flag, oneOf, position } from "../shared/codecs";
import { Store as AnyStore, type Codec, type KeyOf, type StateOf } from "../shared/store";
import { theme } from "../shared/theme";
import type { Direction, Layout } from "./bank_model";

/** How a tensor is laid out on its map. */
export interface MapChoice {
  /** Dimensions; -1: the vector `column` is folded into rows. */
  row: number;
  column: number;
  /** Per dimension the index that is shown; null: where the program begins. */
  fixed: readonly (number | null)[];
}
export interface BankChoice extends Layout {
  direction: Direction;
}

/** Per tensor, by |: "rows.columns", then ".index" of each dimension ("f": follow the program); "": as it comes. */
const dims: Codec<readonly (MapChoice | null)[]> = {
  initial: [],
  read: (value) => (value ? value.split("|").map(readMap) : []),
  write: (value) => value.map((choice) => (choice ? mapText(choice) : "")).join("|"),
};

function readMap(value: string): MapChoice | null {
  const [row, column, ...fixed] = value.split(".");
  if (column === undefined || !/^(-1|\d+)$/.test(row) || !/^\d+$/.test(column)) return null;
  return { row: Number(row), column: Number(column), fixed: fixed.map((index) => (/^\d+$/.test(index) ? Number(index) : null)) };
}
export function mapText({ row, column, fixed }: MapChoice): string {
  return [row, column, ...fixed.map((index) => index ?? "f")].join(".");
}

export const MOST_ROWS = 1024;
const MOST_ELEMENTS = 1 << 18;
const DIRECTIONS: Direction[] = ["column", "row", "matrix"];

/** "rows.columns.bytes.direction.padding.swizzle" */
const banks: Codec<BankChoice> = {
  initial: { rows: 32, columns: 32, bytes: 4, direction: "column", padding: 0, swizzle: false },
  read: (value) => {
    const [r = "32", c = "32", size = "4", access = "column", pad = "0", swizzled = "0"] = value.split(".").filter(Boolean);
    const bounded = (text: string, low: number, high: number): number => Math.min(high, Math.max(low, Math.floor(Number(text)) || low));
    const [rows, columns] = [bounded(r, 1, MOST_ROWS), bounded(c, 1, MOST_ROWS)];
    return {
      rows: Math.min(rows, Math.floor(MOST_ELEMENTS / columns)),
      columns,
      bytes: [1, 2, 4, 8].includes(Number(size)) ? Number(size) : 4,
      direction: DIRECTIONS.find((direction) => direction === access) ?? "column",
      padding: bounded(pad, 0, 128),
      swizzle: swizzled === "1",
    };
  },
  write: ({ rows, columns, bytes, direction, padding, swizzle }) => [rows, columns, bytes, direction, padding, Number(swizzle)].join("."),
};

export const CODECS = {
  theme,
  launch: count(0), // place among the launches of the page
  program: position(), // program number; null: the first traced one
  op: position(), // position among the program's operations; null: all of them
  show: oneOf(["program", "programs", "accesses", "before", "after"]), // what the maps are coloured by
  zoom: flag("program"), // maps show only what the program touches
  dims, // per tensor
  banks, // shared memory
};
export type State = StateOf<typeof CODECS>;
export type Key = KeyOf<typeof CODECS>;
export type Changed = ReadonlySet<Key>;

export class Store extends AnyStore<typeof CODECS> {
  constructor() {
    super(CODECS);
  }
}
/** Bounds a layout as the address does. */
export const boundedBanks = (choice: BankChoice): BankChoice => banks.read(banks.write(choice));
