// The steps strip, and where the selected time went: by kernel category while busy, by cause while idle.
import type { App, View } from "../app";
import { h, replace } from "../../shared/dom";
import { gpusOf, measure, workOf } from "../data/measures";
import { formatMs, formatNs, formatPercent, formatPlural } from "../../shared/format";
import { hasServing } from "../data/serving";
import type { Table } from "../data/table";
import { stepComparison } from "./step_compare";
import { hasGaps } from "./tables/targets";

const SHOWN_ROWS = 12;
const LEAST_SCALE = 25; // percent: bars are no longer than their shares deserve

export function mountSteps(host: HTMLElement, app: App): View {
  const strip = h("div", {
    class: "strip",
    attrs: { role: "group", "aria-label": "Steps; click to describe one alone, Shift or Ctrl for several" },
  });
  const bar = h("div", { class: "whole-bar", attrs: { role: "img" } });
  const lists = h("div", { class: "breakdown" });
  const spread = h("p", { class: "quiet", text: stepsText(app) });
  const caption = h("p", {
    class: "quiet caption",
    text: "All of the GPU's time: while busy by kernel category, in proportion to the kernels' time; hatched: idle, by cause.",
  });
  const comparison = stepComparison(app);
  host.append(strip, spread, bar, caption, lists);
  if (comparison) host.append(comparison.element);
  caption.hidden = !app.scene?.hasGpu;
  const show = (): void => {
    showStrip(strip, app);
    showBar(bar, app, wholeParts(app));
    replace(lists, ...breakdown(app));
  };
  show();
  return {
    update(changed) {
      comparison?.update(changed);
      if (changed.has("steps") || changed.has("range") || changed.has("theme")) show();
    },
  };
}

function showStrip(strip: HTMLElement, app: App): void {
  const steps = app.wholeTable("steps");
  if (!steps.rows) {
    replace(
      strip,
      h("p", {
        class: "empty",
        text: `No steps are marked in this trace (${hasServing(app) ? "its passes are under Serving" : "call prof.step() each iteration"}). A range of time can be selected on the timeline.`,
      }),
    );
    return;
  }
  const focused = strip.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset["step"] : null;
  const column = app.scene?.hasGpu ? "gpu_ms" : "host_ms";
  const longest = Math.max(...steps.column(column).values, 1e-9);
  replace(strip, ...Array.from({ length: steps.rows }, (_, row) => stepButton(app, steps, row, column, longest)));
  const chosen = strip.querySelector<HTMLElement>('[aria-pressed="true"]');
  if (chosen) strip.scrollLeft = Math.max(0, chosen.offsetLeft - strip.offsetLeft - strip.clientWidth / 2);
  if (focused) strip.querySelector<HTMLElement>(`[data-step="${focused}"]`)?.focus();
}

/** How many steps there are, and how much they differ. */
function stepsText(app: App): string {
  const steps = app.wholeTable("steps");
  if (!steps.rows) return "";
  const column = app.scene?.hasGpu ? "gpu_ms" : "host_ms";
  const times = Array.from(steps.column(column).values)
    .filter((ms) => ms > 0)
    .sort((a, b) => a - b);
  if (!times.length) return "";
  const middle = (times[(times.length - 1) >> 1] + times[times.length >> 1]) / 2;
  const range = times.length > 1 ? ` (${formatMs(times[0])} to ${formatMs(times[times.length - 1])})` : "";
  const median = `median ${formatMs(middle)} on the ${column === "gpu_ms" ? "GPU" : "host"}${range}`;
  return `${formatPlural(times.length, "step")}, ${median}. Click one to describe it alone, with Shift or Ctrl several.`;
}

function stepButton(app: App, steps: Table, row: number, column: string, longest: number): HTMLElement {
  const step = steps.number("step", row);
  const chosen = app.store.get("steps");
  const ms = steps.number(column, row) || 0;
  const busy = steps.number("busy_percent", row) || 0;
  const text = `step ${step}: ${formatMs(ms)}${column === "gpu_ms" ? `, GPU busy ${formatPercent(busy)}` : " on the host"}`;
  return h(
    "button",
    {
      class: "step",
      title: text,
      attrs: { "aria-pressed": String(chosen.includes(step)), "aria-label": text, "data-step": String(step) },
      on: {
        click: (event) =>
          app.store.set({ steps: toggled(chosen, step, event.shiftKey || event.ctrlKey || event.metaKey, steps), range: null }),
      },
    },
    h("span", { class: "column", attrs: { "aria-hidden": "true", style: `--tall:${(100 * ms) / longest}%;--busy:${busy}%` } }),
    h("span", { class: "number", text: String(step), attrs: { "aria-hidden": "true" } }),
    h("span", { class: "time", text: formatMs(ms), attrs: { "aria-hidden": "true" } }),
  );
}

/** Alone, or, with a key held, beside those already chosen; a step that is chosen alone is let go. */
function toggled(chosen: readonly number[], step: number, several: boolean, steps: Table): number[] {
  if (!several) return chosen.length === 1 && chosen[0] === step ? [] : [step];
  const next = chosen.includes(step) ? chosen.filter((other) => other !== step) : [...chosen, step];
  return next.length === steps.rows ? [] : next.sort((a, b) => a - b);
}

export interface Part {
  name: string;
  percent: number;
  colour: string;
}

/** The whole time as one bar. */
export function showBar(bar: HTMLElement, app: App, parts: Part[]): void {
  bar.hidden = !parts.length;
  bar.setAttribute("aria-label", parts.map(({ name, percent }) => `${name} ${formatPercent(percent)}`).join(", "));
  replace(
    bar,
    ...parts.map(({ name, percent, colour }) =>
      h(
        "span",
        {
          title: `${name}: ${formatPercent(percent)} of the time`,
          attrs: { style: `width:${percent}%;background:${colour};color:${ink(app, colour)}` },
        },
        percent > 6 ? `${name} ${formatPercent(percent)}` : "",
      ),
    ),
  );
}

function ink(app: App, colour: string): string {
  return colour.startsWith("#") ? app.palette.ink(colour) : "inherit";
}

/** Busy time divided in proportion to the kernels' time, then idle time by cause. */
function wholeParts(app: App): Part[] {
  if (!app.scene?.hasGpu) return [];
  const shares = categoryParts(app, meanPercent(app, "busy"));
  const causes = idleCauses(app).map(({ name, percent }): Part => ({ name: `idle: ${name}`, percent, colour: IDLE }));
  return [...shares, ...causes].filter(({ percent }) => percent > 0.05);
}

/** The kernel categories as parts of the busy time, in percent of all time. */
export function categoryParts(app: App, busy: number): Part[] {
  const table = app.table("kernel_categories");
  return Array.from({ length: table.rows }, (_, row): Part => {
    const name = table.text("kernel_category", row);
    return { name, percent: (busy * table.number("percent", row)) / 100, colour: app.palette.category(name) };
  });
}

const IDLE = "repeating-linear-gradient(45deg, var(--line) 0 4px, var(--panel) 4px 8px)";

/** A measure's share of the time, the mean over the GPUs. */
function meanPercent(app: App, measure: string): number {
  const timeline = app.table("timeline");
  const rows = Array.from({ length: timeline.rows }, (_, row) => row).filter(
    (row) => timeline.text("measure", row) === measure && timeline.text("device", row) !== "all",
  );
  return rows.reduce((sum, row) => sum + timeline.number("percent", row), 0) / Math.max(1, rows.length);
}

function idleCauses(app: App): { name: string; percent: number; ms: number; count: number }[] {
  const idle = app.table("idle");
  const sums = new Map<string, { percent: number; ms: number; count: number }>();
  const gpus = app.scene ? gpusOf(app.scene).length : 1;
  for (let row = 0; row < idle.rows; row++) {
    const sum = sums.get(idle.text("cause", row)) ?? { percent: 0, ms: 0, count: 0 };
    sum.percent += idle.number("percent", row) / gpus;
    sum.ms += idle.number("total_us", row) / 1e3;
    sum.count += idle.number("count", row);
    sums.set(idle.text("cause", row), sum);
  }
  return [...sums].map(([name, figures]) => ({ name, ...figures })).sort((a, b) => b.ms - a.ms);
}

function breakdown(app: App): HTMLElement[] {
  const { scene } = app;
  if (!scene) return [];
  if (!scene.hasGpu) return [hostOps(app)];
  const { total } = measure(workOf(scene, null), app.selection.windows);
  const gpus = gpusOf(scene).length;
  const share = (name: string): string => formatPercent(meanPercent(app, name));
  const where = gpus > 1 ? `on ${gpus} GPUs (shares are means over them)` : "on the GPU";
  const parts = [`${formatNs(total)} ${where}: busy ${share("busy")}`, `idle ${share("idle")}`];
  for (const [name, words] of EXPOSED) if (meanPercent(app, name) > 0.05) parts.push(`${words} ${share(name)}`);
  return [categoryList(app), idleList(app, `${parts.join(", ")}.`)];
}

const EXPOSED = [
  ["exposed_communication", "exposed communication"],
  ["exposed_memcpy", "exposed copies"],
] as const;

export interface Bar {
  name: string;
  percent: number;
  colour: string;
  figures: string;
  title: string;
  go(): void;
}

export function barList(title: string, note: string, bars: Bar[], empty: string, twin: () => void): HTMLElement {
  const longest = Math.max(...bars.map(({ percent }) => percent), LEAST_SCALE);
  const rows = bars
    .slice(0, SHOWN_ROWS)
    .map((bar) =>
      h(
        "tr",
        { title: bar.title },
        h("th", { attrs: { scope: "row" } }, h("button", { class: "link", text: bar.name, on: { click: bar.go } })),
        h("td", { class: "track" }, h("span", { attrs: { style: `width:${(100 * bar.percent) / longest}%;background:${bar.colour}` } })),
        h("td", { class: "num", text: formatPercent(bar.percent) }),
        h("td", { class: "num quiet", text: bar.figures }),
      ),
    );
  const hidden = bars.length - rows.length;
  return h(
    "div",
    {},
    h("h3", { text: title }),
    h("p", { class: "quiet", text: note }),
    bars.length ? h("table", { class: "bars" }, h("tbody", {}, ...rows)) : h("p", { class: "empty", text: empty }),
    h("button", {
      class: "link",
      text: hidden > 0 ? `${hidden} more, as a table` : "as a table",
      on: { click: twin },
    }),
  );
}

export function categoryList(app: App): HTMLElement {
  const table = app.table("kernel_categories");
  const meanings = app.header.definitions["kernel categories"] ?? {};
  const bars = Array.from({ length: table.rows }, (_, row): Bar => {
    const name = table.text("kernel_category", row);
    return {
      name,
      percent: table.number("percent", row),
      colour: app.palette.category(name),
      figures: `${formatMs(table.number("total_us", row) / 1e3)} · ${formatPlural(table.number("count", row), "event")}`,
      title: meanings[name] ?? "",
      go: () => app.go({ to: "table", table: "kernels", filter: `kernel_category:"${name}"` }),
    };
  });
  const note = "Shares of the summed time of all GPU events; click for the kernels.";
  return barList("GPU time by kernel category", note, bars, "No GPU event belongs to the selection.", () =>
    app.go({ to: "table", table: "kernel_categories" }),
  );
}

function idleList(app: App, sentence: string): HTMLElement {
  const meanings = app.header.definitions["causes of idleness"] ?? {};
  const bars = idleCauses(app).map(({ name, percent, ms, count }): Bar => ({
    name,
    percent,
    colour: "var(--quiet)",
    figures: `${formatMs(ms)} · ${formatPlural(count, "gap")}`,
    title: meanings[name] ?? "",
    go: () => app.go(hasGaps(app, name) ? { to: "table", table: "gaps", filter: `cause:"${name}"` } : { to: "table", table: "idle" }),
  }));
  return barList("Why the GPU was idle", sentence, bars, "The GPU was never idle.", () => app.go({ to: "table", table: "idle" }));
}

function hostOps(app: App): HTMLElement {
  const ops = app.table("ops");
  const whole = Array.from(ops.column("cpu_self_us").values).reduce((sum, us) => sum + us, 0) || 1;
  const order = Array.from({ length: ops.rows }, (_, row) => row);
  order.sort((a, b) => ops.number("cpu_self_us", b) - ops.number("cpu_self_us", a));
  const bars = order.map((row): Bar => {
    const us = ops.number("cpu_self_us", row);
    const name = ops.text("op", row);
    return {
      name,
      percent: (100 * us) / whole,
      colour: "var(--accent)",
      figures: `${formatMs(us / 1e3)} · ${formatPlural(ops.number("count", row), "call")}`,
      title: name,
      go: () => app.go({ to: "table", table: "ops", filter: `op:"${name}"` }),
    };
  });
  const note = "No GPU work in this trace: shares of the host's time in ops, inner ops not counted.";
  return barList("Host time by op", note, bars, "No ops are recorded either.", () => app.go({ to: "table", table: "ops" }));
}
