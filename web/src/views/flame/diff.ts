// Two call trees laid over each other: width by one of them or by the change, colour by the change.
import { isDark, mixed } from "../../colours";
import type { Table } from "../../data/table";
import { formatCount, formatNs } from "../../format";
import { timeText, type Look } from "./facts";
import type { Fact } from "../../tip";
import { layOut, type Frames } from "./frames";
import { TreeBuilder, type Tree } from "./tree";

export const WIDTHS = {
  b: "Widths are times in B; what only A has is not drawn.",
  a: "Widths are times in A; what only B has is not drawn.",
  delta: "Widths are changes, faster and slower alike: a caller is as wide as all changes below it together.",
} as const;
export type Width = keyof typeof WIDTHS;

// Blue and orange stay apart for every kind of colour vision; the sign on the frame says it without colour.
const FASTER = "#2166ac";
const SLOWER = "#d95f02";
const NEUTRAL = { light: "#e9e9e9", dark: "#3a424e" };
const SIGN_FROM_PERCENT = 1;
const NS = 1000;

export function diffLook(table: Table, by: Width): Look {
  const numbers = (name: string): Float64Array => table.column(name).values as Float64Array;
  const [a, b, delta, ratio] = ["a_us", "b_us", "delta_us", "ratio"].map(numbers);
  const [aCount, bCount] = ["a_count", "b_count"].map(numbers);
  const frames = layOut(diffTree(table, by), true);
  const largest = delta.reduce((most, value, row) => (row ? Math.max(most, Math.abs(value)) : most), 0);
  const rowOf = (frame: number): number => frames.node[frame];
  const facts = (frame: number): Fact[] => {
    const row = rowOf(frame);
    return [
      ["A", timeText(a[row] * NS)],
      ["B", timeText(b[row] * NS)],
      ["Δ", signed(delta[row])],
      ["B / A", ratioText(ratio[row])],
      ["count", `${count(aCount[row])} → ${count(bCount[row])}`],
      ["in", table.text("status", row)],
      ["kind", table.text("kind", row)],
    ];
  };
  const colours: string[] = [];
  const recolour = (): void => delta.forEach((value, row) => (colours[row] = colourOf(value, largest)));
  recolour();
  return {
    frames,
    weightText: by === "delta" ? "changed GPU time" : `GPU time of ${by.toUpperCase()}`,
    countText: "kernels and copies",
    colour: (frame) => colours[rowOf(frame)],
    recolour,
    facts,
    mark: (frame) => markOf(a[rowOf(frame)], b[rowOf(frame)]),
    columns: ["A", "B", "Δ", "B / A", "kind"],
    cells: (frame) => {
      const row = rowOf(frame);
      return [timeText(a[row] * NS), timeText(b[row] * NS), signed(delta[row]), ratioText(ratio[row]), table.text("kind", row)];
    },
    legend: () => [
      [`− faster in B, up to ${formatNs(largest * NS)}`, colourOf(-largest, largest)],
      ["unchanged", colourOf(0, largest)],
      [`+ slower in B, up to ${formatNs(largest * NS)}`, colourOf(largest, largest)],
    ],
  };
}

function count(value: number): string {
  return formatCount(Math.round(value * 10) / 10);
}

function ratioText(ratio: number): string {
  return Number.isNaN(ratio) ? "only in B" : `${ratio.toFixed(3)}×`;
}

export function signed(us: number): string {
  return `${us > 0 ? "+" : us < 0 ? "−" : "±"}${formatNs(Math.abs(us) * NS)}`;
}

function markOf(a: number, b: number): string {
  if (Math.abs(b - a) * 100 < SIGN_FROM_PERCENT * Math.max(a, b)) return "";
  return b > a ? "+ " : "− ";
}

function colourOf(delta: number, largest: number): string {
  const neutral = isDark() ? NEUTRAL.dark : NEUTRAL.light;
  // By the square root: most frames change little next to the one that changes most.
  const share = largest > 0 ? Math.sqrt(Math.min(1, Math.abs(delta) / largest)) : 0;
  return mixed(neutral, delta < 0 ? FASTER : SLOWER, share);
}

function diffTree(table: Table, by: Width): Tree {
  const [node, parent] = ["node", "parent"].map((name) => table.column(name).values);
  const build = new TreeBuilder();
  // Nodes count up from the root, which the builder has already.
  for (let row = 1; row < table.rows; row++) {
    if (node[row] !== row) throw new Error("diff_tree is not in the order of its nodes");
    build.append(parent[row], build.nameNumber(table.text("name", row)), build.toneNumber(table.text("kind", row)));
  }
  const own = ownWidths(table, by, parent);
  for (let row = 0; row < table.rows; row++) build.book(row, own[row], -1, -1, 0);
  return build.finish();
}

/** What a node has besides its children; for changes its size, so that + and − below a caller do not cancel. */
function ownWidths(table: Table, by: Width, parent: ArrayLike<number>): Float64Array {
  const own = (table.column(`${by}_us`).values as Float64Array).map((us) => us * NS);
  const whole = own.slice();
  for (let row = 1; row < table.rows; row++) own[parent[row]] -= whole[row];
  // Less than a nanosecond is rounding.
  return own.map((ns) => (Math.abs(ns) < 1 ? 0 : by === "delta" ? Math.abs(ns) : Math.max(0, ns)));
}

export function diffContext(table: Table): string {
  return /\((\w+)\)/.exec(table.meaning)?.[1] ?? "";
}

/** How much time the chosen width leaves out: nodes that only the other trace has. */
export function leftOut(table: Table, frames: Frames): string {
  let hidden = 0;
  for (let frame = 1; frame < frames.size; frame++) if (frames.width[frame] === 0) hidden++;
  return hidden ? `${formatCount(hidden)} of ${formatCount(table.rows)} call paths have no width here.` : "";
}

