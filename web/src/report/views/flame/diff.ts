// Two call trees laid over each other: width by one of them or by the change, colour by the change.
import { isDark, mixed } from "../../../shared/colours";
import type { Table } from "../../data/table";
import { formatCount, formatNs } from "../../../shared/format";
import type { Look } from "./facts";
import type { Fact } from "../../../shared/tip";
import { layOut, type Frames } from "./frames";
import { TreeBuilder, type Tree } from "./tree";

export type Width = "a" | "b" | "delta";

/** What two trees are compared by: GPU time, or counts where neither profile has times. */
export interface Compared {
  what: string;
  /** The columns are called after it: a_us, b_us. */
  unit: "us" | "count";
  /** To whole numbers for other viewers: ns, or the counts themselves. */
  scale: number;
  less: string;
  more: string;
  widths: Record<Width, string>;
  text(value: number): string;
}

const widthsOf = (what: string, changes: string): Record<Width, string> => ({
  b: `Widths are ${what} in B; what only A has is not drawn.`,
  a: `Widths are ${what} in A; what only B has is not drawn.`,
  delta: `Widths are changes, ${changes} alike: a caller is as wide as all changes below it together.`,
});
const TIMES: Compared = {
  what: "GPU time",
  unit: "us",
  scale: 1000,
  less: "faster",
  more: "slower",
  widths: widthsOf("times", "faster and slower"),
  text: (us) => (us ? formatNs(us * 1000) : "0"),
};
const COUNTS: Compared = {
  what: "calls",
  unit: "count",
  scale: 1,
  less: "fewer",
  more: "more",
  widths: widthsOf("counts", "more and fewer"),
  text: count,
};

export function comparedBy(table: Table): Compared {
  return table.number("a_us", 0) || table.number("b_us", 0) ? TIMES : COUNTS;
}

// Blue and orange stay apart for every kind of colour vision; the sign on the frame says it without colour.
const FASTER = "#2166ac";
const SLOWER = "#d95f02";
const NEUTRAL = { light: "#e9e9e9", dark: "#3a424e" };
const SIGN_FROM_PERCENT = 1;

export function diffLook(table: Table, by: Width): Look {
  const compared = comparedBy(table);
  const { text, what, unit, less, more } = compared;
  const numbers = (name: string): Float64Array => table.column(name).values as Float64Array;
  const [a, b, aCount, bCount] = [`a_${unit}`, `b_${unit}`, "a_count", "b_count"].map(numbers);
  const delta = b.map((value, row) => value - a[row]);
  const changed = (row: number): string => signed(delta[row], text);
  const frames = layOut(diffTree(table, by, compared), true);
  const largest = delta.reduce((most, value, row) => (row ? Math.max(most, Math.abs(value)) : most), 0);
  const rowOf = (frame: number): number => frames.node[frame];
  const facts = (frame: number): Fact[] => {
    const row = rowOf(frame);
    return [
      ["A", text(a[row])],
      ["B", text(b[row])],
      ["Δ", changed(row)],
      ["B / A", ratioText(b[row] / a[row])],
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
    weightText: by === "delta" ? `changed ${what}` : `${what} of ${by.toUpperCase()}`,
    countText: "kernels and copies",
    colour: (frame) => colours[rowOf(frame)],
    recolour,
    facts,
    mark: (frame) => markOf(a[rowOf(frame)], b[rowOf(frame)]),
    columns: ["A", "B", "Δ", "B / A", "kind"],
    cells: (frame) => {
      const row = rowOf(frame);
      return [text(a[row]), text(b[row]), changed(row), ratioText(b[row] / a[row]), table.text("kind", row)];
    },
    legend: () => [
      [`− ${less} in B, up to ${text(largest)}`, colourOf(-largest, largest)],
      ["unchanged", colourOf(0, largest)],
      [`+ ${more} in B, up to ${text(largest)}`, colourOf(largest, largest)],
    ],
  };
}

function count(value: number): string {
  return formatCount(Math.round(value * 10) / 10);
}

function ratioText(ratio: number): string {
  return Number.isFinite(ratio) ? `${ratio.toFixed(3)}×` : "only in B";
}

export function signed(value: number, text: (value: number) => string): string {
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${text(Math.abs(value))}`;
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

function diffTree(table: Table, by: Width, compared: Compared): Tree {
  const [node, parent] = ["node", "parent"].map((name) => table.column(name).values);
  const build = new TreeBuilder();
  // Nodes count up from the root, which the builder has already.
  for (let row = 1; row < table.rows; row++) {
    if (node[row] !== row) throw new Error("diff_tree is not in the order of its nodes");
    build.append(parent[row], build.nameNumber(table.text("name", row)), build.toneNumber(table.text("kind", row)));
  }
  const own = ownWidths(table, by, parent, compared);
  for (let row = 0; row < table.rows; row++) build.book(row, own[row], -1, -1, 0);
  return build.finish();
}

/** What a node has besides its children; for changes its size, so that + and − below a caller do not cancel. */
function ownWidths(table: Table, by: Width, parent: ArrayLike<number>, { unit, scale }: Compared): Float64Array {
  const [a, b] = ["a", "b"].map((side) => table.column(`${side}_${unit}`).values as Float64Array);
  const own = b.map((value, row) => scale * (by === "delta" ? value - a[row] : by === "a" ? a[row] : value));
  const whole = own.slice();
  for (let row = 1; row < table.rows; row++) own[parent[row]] -= whole[row];
  // Less than a nanosecond is rounding; counts are means over the runs.
  const least = unit === "us" ? 1 : 1e-6;
  return own.map((value) => (Math.abs(value) < least ? 0 : by === "delta" ? Math.abs(value) : Math.max(0, value)));
}

/** How much time the chosen width leaves out: nodes that only the other trace has. */
export function leftOut(table: Table, frames: Frames): string {
  let hidden = 0;
  for (let frame = 1; frame < frames.size; frame++) if (frames.width[frame] === 0) hidden++;
  return hidden ? `${formatCount(hidden)} of ${formatCount(table.rows)} call paths have no width here.` : "";
}
