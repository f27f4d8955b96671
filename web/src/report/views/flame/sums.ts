// The call tree of a profile without a timeline: any of its sums, heaviest first or inverted.
import type { App } from "../../app";
import { CODECS } from "../../state";
import type { Table } from "../../data/table";
import { choice, h, press } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import { amountsOf, countedIn, type Amount } from "./amounts";
import type { Order } from "./build";
import { layOut, type Frames } from "./frames";
import { treeLook } from "./look";
import { inverted } from "./orders";
import { CONTEXTS, GPU_WORK, type Context } from "./paths";
import { CONTEXT_NAMES, ORDERS } from "./report";
import { empty, labelled, stemOf, type Picture, type Source } from "./source";
import { foldedText, speedscopeText } from "./stacks";
import { ROOT, TreeBuilder, type Tree } from "./tree";

/** Tables that hold a tree, one node per row, parents before their children. */
const TREES = ["call_paths", "tree"];
/** Kinds that a context may leave out; kernels and what is inside them always stay. */
const CALLERS = ["python", "module", "annotation", "op"];
const MOST_BUTTONS = 6;
const SLOW_ROWS = 40_000;

export function sumsTable(app: App): Table | null {
  const name = TREES.find((candidate) => app.hasTable(candidate));
  return name ? app.wholeTable(name) : null;
}

export function sumsSource(app: App): Source {
  const table = sumsTable(app);
  const amounts = table && table.rows > 1 ? amountsOf(table) : [];
  if (!table || !amounts.length) return nothing(app);
  const { store } = app;
  const contexts = contextsOf(table);
  const framesByKey = new Map<string, Frames>();
  const amount = (): Amount => amounts.find(({ column }) => column === store.get("weight")) ?? amounts[0];
  const order = (): Order => (store.get("order") === "inverted" ? "inverted" : "left");
  const context = (): Context => contexts.find(([candidate]) => candidate === store.get("context"))?.[0] ?? "python";
  const framesIn = (by: Order): Frames => {
    const key = `${amount().column} ${context()} ${by}`;
    let frames = framesByKey.get(key);
    if (!frames) {
      const tree = treeOf(app, table, amount(), context());
      framesByKey.set(key, (frames = layOut(by === "inverted" ? inverted(tree, null) : tree, true)));
    }
    return frames;
  };
  const weight = weightControl(amounts, amount().column, (column) => store.set({ weight: column, zoom: CODECS.zoom.initial }));
  const orders = choice(
    "Order",
    ORDERS.filter(([candidate]) => candidate !== "time"),
    order(),
    (chosen) => store.set({ order: chosen, zoom: CODECS.zoom.initial }),
  );
  const callers = choice("Callers", contexts, context(), (chosen) => store.set({ context: chosen, zoom: CODECS.zoom.initial }));
  const stem = stemOf(app);
  return {
    controls: [labelled("Weight", weight.element), labelled("Order", orders), ...(contexts.length ? [labelled("Callers", callers)] : [])],
    keys: ["weight", "order", "context"],
    sync: () => {
      weight.mark(amount().column);
      press(orders, order());
      press(callers, context());
    },
    isSlow: () => table.rows > SLOW_ROWS && !framesByKey.has(`${amount().column} ${context()} ${order()}`),
    make: () => pictureOf(app, table, amount(), framesIn(order())),
    title: () => `${amount().text} by call path: ${stem}`,
    fileStem: () => `${stem}.${amount().column.replace(/\W/g, "_")}`,
    folded: () => foldedText(framesIn("left")),
    speedscope: () => {
      const frames = framesIn("left");
      return speedscopeText(frames, stem, [
        { name: `${amount().text} of ${stem}`, own: (frame) => frames.self[frame], unit: amount().unit },
      ]);
    },
  };
}

function nothing(app: App): Source {
  return {
    controls: [],
    keys: [],
    sync: () => undefined,
    isSlow: () => false,
    make: () => empty("No call path in this profile has any time, count or other sum."),
    title: () => app.header.title,
    fileStem: () => stemOf(app),
    folded: () => "",
    speedscope: () => "",
  };
}

/** Buttons, or where a profiler recorded many metrics, a list to choose from. */
function weightControl(
  amounts: Amount[],
  current: string,
  choose: (column: string) => void,
): { element: HTMLElement; mark(column: string): void } {
  if (amounts.length <= MOST_BUTTONS) {
    const element = choice(
      "Weight",
      amounts.map(({ column, text, meaning }) => [column, text, meaning] as const),
      current,
      choose,
    );
    return { element, mark: (column) => press(element, column) };
  }
  const options = amounts.map(({ column, text, meaning }) => h("option", { text, title: meaning, attrs: { value: column } }));
  const element = h("select", { attrs: { "aria-label": "Weight" }, on: { change: () => choose(element.value) } }, ...options);
  element.value = current;
  return { element, mark: (column) => (element.value = column) };
}

/** Without Python frames every choice would show the same: all callers there are. */
function contextsOf(table: Table): typeof CONTEXT_NAMES {
  const column = table.column("kind");
  const kinds = new Set(Array.from(column.values, (_, row) => table.textOf(column, row)));
  if (!kinds.has("python")) return [];
  const bare: (typeof CONTEXT_NAMES)[number] = ["op", "Kernels", "No callers: kernels alone"];
  return [...CONTEXT_NAMES.filter(([context]) => kinds.has(context)), ...(kinds.has("op") ? [] : [bare])];
}

function treeOf(app: App, table: Table, amount: Amount, context: Context): Tree {
  const build = new TreeBuilder();
  const parent = table.column("parent").values;
  const counts = table.has("count") ? ownCounts(table, parent) : new Float64Array(table.rows);
  const { nameOf, categoryOf } = kernelFacts(app, table);
  const shown: readonly string[] = CONTEXTS[context];
  const [kinds, names] = [table.column("kind"), table.column("name")];
  const nodeOfRow = new Int32Array(table.rows);
  for (let row = 1; row < table.rows; row++) {
    const kind = table.textOf(kinds, row);
    const above = nodeOfRow[parent[row]];
    if (CALLERS.includes(kind) && !shown.includes(kind)) nodeOfRow[row] = above;
    else {
      const isWork = GPU_WORK.includes(kind);
      const tone = build.toneNumber(isWork ? "kernel" : kind, isWork ? categoryOf(row) : "");
      nodeOfRow[row] = build.child(above, build.nameNumber(kind === "kernel" ? nameOf(row) : table.textOf(names, row)), tone);
    }
  }
  nodeOfRow.forEach((node, row) => build.book(node, amount.own[row], -1, -1, counts[row]));
  return build.finish();
}

function ownCounts(table: Table, parent: ArrayLike<number>): Float64Array {
  const whole = table.column("count").values;
  const own = Float64Array.from(whole);
  for (let row = 1; row < table.rows; row++) own[parent[row]] -= whole[row];
  return own;
}

/** Short names and categories of kernels: from the tree's own table, or from that of the kernels. */
function kernelFacts(app: App, table: Table): { nameOf(row: number): string; categoryOf(row: number): string } {
  const name = (row: number): string => table.text("name", row);
  if (table.has("kernel_category")) return { nameOf: name, categoryOf: (row) => table.text("kernel_category", row) };
  const factsOfKernel = new Map<string, [short: string, category: string]>();
  if (app.hasTable("kernels")) {
    const kernels = app.wholeTable("kernels");
    for (let row = 0; row < kernels.rows; row++) {
      factsOfKernel.set(kernels.text("kernel", row), [kernels.text("kernel_short", row), kernels.text("kernel_category", row)]);
    }
  }
  return {
    nameOf: (row) => factsOfKernel.get(name(row))?.[0] ?? name(row),
    categoryOf: (row) => factsOfKernel.get(name(row))?.[1] ?? "",
  };
}

function pictureOf(app: App, table: Table, amount: Amount, frames: Frames): Picture {
  const countText = countedIn(table);
  const look = treeLook(frames, { weightText: amount.text, countText, text: amount.shown }, app.palette);
  const whole = amount.shown(frames.width[ROOT]);
  const counted = frames.count[ROOT] > 0 && amount.column !== "count" ? ` in ${formatCount(frames.count[ROOT])} ${countText}` : "";
  let hidden = 0;
  for (let frame = 1; frame < frames.size; frame++) if (!frames.width[frame]) hidden++;
  const text = [
    `${whole}${/\d$/.test(whole) ? "" : " of"} ${amount.text}${counted}; ${formatCount(frames.size)} frames.`,
    hidden ? `${formatCount(hidden)} of them have none of it and are not drawn.` : "",
  ];
  return { look, text: text.filter(Boolean).join(" ") };
}
