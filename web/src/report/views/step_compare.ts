// Step against step: two steps of the trace, and what took more time in one than in the other.
import type { App, View } from "../app";
import { stepChanges, stepTimes, endlessStep, groupingsOf, usualSteps, type StepChange } from "../data/step_diff";
import type { Grouping } from "../data/groupings";
import { Table, type Column } from "../data/table";
import { choice, h, press, replace, whenIdle } from "../../shared/dom";
import { formatCount, formatMs, formatNs, formatPercent } from "../../shared/format";
import { signedNs, swing } from "./changes";
import { Texts } from "./tables/events";
import { extraFacts, extraTables } from "./tables/extra";

const SHOWN = 12;
const ROOM_REM = 21; // of so many rows
const TABLE = "step_diff";
const TITLES: Record<Grouping, string> = { kernel: "Kernel", op: "Op", category: "Category", module: "Module" };

/** The part of the section, or null where there are no two steps. */
export function stepComparison(app: App): (View & { element: HTMLElement }) | null {
  if (!app.scene || !stepsOf(app) || !groupingsOf(app).length) return null;
  extraTables.set(TABLE, tableOf);
  extraFacts.set(TABLE, { key: ({ store }) => `${chosen(app).join(" ")} ${store.get("stepby")}` });
  return new Comparison(app);
}

class Comparison implements View {
  readonly element: HTMLElement;
  private readonly selects: HTMLSelectElement[];
  private readonly by: HTMLElement;
  private readonly result = h("div", {});

  constructor(private readonly app: App) {
    this.selects = ["stepa" as const, "stepb" as const].map((key, side) => this.select(key, "AB"[side]));
    const options = groupingsOf(app).map((by) => [by, TITLES[by]] as const);
    this.by = choice("Compare by", options, grouping(app), (stepby) => app.store.set({ stepby }));
    this.element = h(
      "div",
      { class: "step-compare", attrs: { role: "group", "aria-labelledby": "step-compare-title" } },
      h(
        "div",
        { class: "step-compare-head" },
        h("h3", { id: "step-compare-title", text: "Step against step" }),
        h("label", {}, "A ", this.selects[0]),
        h("label", {}, "B ", this.selects[1]),
        this.by,
      ),
      this.result,
    );
    // It takes a third of what the rest of the page does, and is not what is seen first: until then its place is kept.
    this.result.style.minHeight = `${ROOM_REM}rem`;
    whenIdle(() => this.result.style.minHeight && this.show());
  }

  update(changed: Parameters<View["update"]>[0]): void {
    if ((["stepa", "stepb", "stepby", "theme"] as const).some((key) => changed.has(key))) this.show();
  }

  private select(key: "stepa" | "stepb", side: string): HTMLSelectElement {
    const steps = timesOf(this.app);
    const options = steps.map(({ step, ms }) => h("option", { text: `step ${step} · ${formatMs(ms)}`, attrs: { value: String(step) } }));
    const select = h(
      "select",
      { attrs: { "aria-label": `Step ${side}` }, on: { change: () => this.app.store.set({ [key]: Number(select.value) }) } },
      ...options,
    );
    return select;
  }

  private show(): void {
    const { app } = this;
    this.result.style.minHeight = "";
    const steps = chosen(app);
    this.selects.forEach((select, side) => (select.value = String(steps[side])));
    press(this.by, grouping(app));
    const changes = stepChanges(app, ...steps, grouping(app));
    const largest = Math.max(...changes.map(({ a, b }) => Math.abs(b - a)), 1);
    const heads = [TITLES[grouping(app)], "A", "B", "B − A", "", "calls"].map((text) => h("th", { text, attrs: { scope: "col" } }));
    const lines = changes.slice(0, SHOWN).map((change) => this.line(change, largest));
    const more = changes.length - lines.length;
    replace(
      this.result,
      h("p", { text: summary(app, ...steps) }),
      h("div", { class: "wide" }, h("table", { class: "changes" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...lines))),
      h("button", {
        class: "link",
        text: more > 0 ? `${more} more, as a table` : "as a table",
        on: { click: () => app.go({ to: "table", table: TABLE }) },
      }),
    );
  }

  private line({ name, category, a, b, aCount, bCount, table, row }: StepChange, largest: number): HTMLElement {
    const { app } = this;
    const swatch = h("i", { class: "swatch" });
    swatch.style.background = category ? app.palette.category(category) : "transparent";
    const link = h("button", { class: "link", text: name, title: name, on: { click: () => app.go({ to: "table", table, row }) } });
    const calls = Number.isNaN(aCount + bCount)
      ? ""
      : aCount === bCount
        ? formatCount(aCount)
        : `${formatCount(aCount)} → ${formatCount(bCount)}`;
    return h(
      "tr",
      {},
      h("th", { attrs: { scope: "row" } }, swatch, link),
      h("td", { class: "num", text: formatNs(a) }),
      h("td", { class: "num", text: formatNs(b) }),
      h("td", { class: "num", text: signedNs(b - a), title: a ? `${formatPercent((100 * b) / a)} of A` : "" }),
      h("td", { class: "swing" }, swing((b - a) / largest)),
      h("td", { class: "quiet", text: calls }),
    );
  }
}

/** How long both took, and whether the GPU worked or waited longer. */
function summary(app: App, a: number, b: number): string {
  const [first, second] = [stepTimes(app, a), stepTimes(app, b)];
  const whole = `Step ${a}: ${formatNs(first.total)}, step ${b}: ${formatNs(second.total)}, ${signedNs(second.total - first.total)}`;
  if (!app.scene?.hasGpu) return `${whole}. Times of ops on the host, inner ops not counted.`;
  return `${whole}: GPU busy ${signedNs(second.busy - first.busy)}, idle ${signedNs(second.idle - first.idle)}.${lastOne(app, a, b)}`;
}

/** As `warplens diff --steps` says it. */
function lastOne(app: App, a: number, b: number): string {
  const side = [a, b].indexOf(endlessStep(app.scene!) ?? NaN);
  return side < 0 ? "" : ` No next step ends the last one, in ${"AB"[side]}: idle time after it is not counted.`;
}

function timesOf(app: App): { step: number; ms: number }[] {
  if (!app.hasTable("steps")) return [];
  const steps = app.wholeTable("steps");
  const column = app.scene?.hasGpu ? "gpu_ms" : "host_ms";
  const all = Array.from({ length: steps.rows }, (_, row) => ({ step: steps.number("step", row), ms: steps.number(column, row) }));
  return all.filter(({ ms }) => ms > 0);
}
function stepsOf(app: App): [number, number] | null {
  return usualSteps(timesOf(app), app.scene && endlessStep(app.scene));
}
function chosen(app: App): [number, number] {
  const numbers = new Set(timesOf(app).map(({ step }) => step));
  const usual = stepsOf(app)!;
  const one = (key: "stepa" | "stepb", side: number): number => {
    const step = app.store.get(key);
    return step !== null && numbers.has(step) ? step : usual[side];
  };
  return [one("stepa", 0), one("stepb", 1)];
}
function grouping(app: App): Grouping {
  const [first, ...others] = groupingsOf(app);
  const wanted = app.store.get("stepby");
  return others.find((by) => by === wanted) ?? first;
}

/** All of it as a table. */
function tableOf(app: App): Table {
  const [a, b] = chosen(app);
  const changes = stepChanges(app, a, b, grouping(app));
  const texts = new Texts([]);
  const text = (name: string, meaning: string, of: (change: StepChange) => string): Column => {
    const values = Int32Array.from(changes, (change) => (of(change) ? texts.code(of(change)) : -1));
    return { name, unit: "", meaning, kind: "text", values };
  };
  const number = (name: string, unit: string, meaning: string, of: (change: StepChange) => number): Column => {
    return { name, unit, meaning, kind: "number", values: Float64Array.from(changes, of) };
  };
  const columns = [
    text(grouping(app), "what the time is of", ({ name }) => name),
    text("kernel_category", "category of the kernel", ({ category }) => category),
    number("a_us", "us", `time in step ${a}`, (change) => change.a / 1e3),
    number("b_us", "us", `time in step ${b}`, (change) => change.b / 1e3),
    number("delta_us", "us", "by how much step B takes longer", (change) => (change.b - change.a) / 1e3),
    number("a_count", "", `calls in step ${a}`, ({ aCount }) => aCount),
    number("b_count", "", `calls in step ${b}`, ({ bCount }) => bCount),
  ];
  const meaning = `step ${a} (A) against step ${b} (B), by ${grouping(app)}`;
  return new Table({ name: TABLE, meaning, notes: [], rows: changes.length, columns }, texts.list);
}
