// What a tree of sums can be weighed by: time, counts, and whatever else its profiler recorded.
import type { Column, Table } from "../../data/table";
import { formatBytes, formatFlop, formatNs, formatNumber } from "../../../shared/format";

/** Columns of a tree that belong to a node alone, are shares of something, or rates. */
const NO_SUM = /^(node|parent|depth|self_us|percent.*|.*%|avg_.*|.*\/s|util|intensity|exc:.*|.*\(exc\))$/;
const NS: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
const TIMES = ["total_us", "gpu_us"];
/** What rounding may take from a sum, as a share of it. */
const ROUNDING = 1e-9;

/** One column of a tree; times are turned into ns. */
export interface Amount {
  column: string;
  /** What it is, for people. */
  text: string;
  meaning: string;
  unit: "nanoseconds" | "bytes" | "none";
  /** Per row what it has besides its children. */
  own: Float64Array;
  shown(value: number): string;
}

/** The columns of which a node has at least what its children have together. */
export function amountsOf(table: Table): Amount[] {
  const parent = table.column("parent").values;
  return table.columns.flatMap((column) => {
    if (column.kind !== "number" || NO_SUM.test(column.name)) return [];
    const own = ownOf(column, parent);
    return own ? [amountOf(table, column, own)] : [];
  });
}

/** What each row has besides its children; null where that is nothing, or where the column is not a sum. */
function ownOf({ values, unit }: Column, parent: ArrayLike<number>): Float64Array | null {
  const own = new Float64Array(values.length).map((_, row) => (values[row] || 0) * (NS[unit] ?? 1));
  const whole = own.slice();
  for (let row = 1; row < own.length; row++) own[parent[row]] -= whole[row];
  const isSum = own.every((value, row) => value >= -ROUNDING * whole[row]);
  return isSum && whole[0] > 0 ? own.map((value, row) => (value > ROUNDING * whole[row] ? value : 0)) : null;
}

function amountOf(table: Table, { name, unit, meaning }: Column, own: Float64Array): Amount {
  const isTime = unit in NS;
  const isBytes = unit === "bytes" || /(^|_)bytes$/.test(name);
  return {
    column: name,
    text: TIMES.includes(name) ? "GPU time" : name === "count" ? countedIn(table) : name,
    meaning,
    unit: isTime ? "nanoseconds" : isBytes ? "bytes" : "none",
    own,
    shown: (value) =>
      !value
        ? "0"
        : isTime
          ? formatNs(value)
          : isBytes
            ? formatBytes(value)
            : unit === "FLOP"
              ? formatFlop(value)
              : formatNumber(value, unit),
  };
}

/** Where a profile has times it counts what took them. */
export function countedIn(table: Table): string {
  return TIMES.some((name) => table.has(name) && table.number(name, 0) > 0) ? "GPU events" : "calls";
}
