// A served model: prefill against decode, what happens between two tokens, and the passes that kept tokens waiting.
import type { App, Target, View } from "../app";
import { h } from "../../shared/dom";
import { formatCount, formatMs, formatPercent } from "../../shared/format";
import type { Table } from "../data/table";
import { barList, showBar, type Bar, type Part } from "./steps";

const SHOWN_SLOW = 8;
const WHOLE = "interval"; // the row of token_latency that the others are parts of

export function mountServing(host: HTMLElement, app: App): View {
  const note = app.wholeTable("serving_phases").notes.join("; ");
  const parts = h("div", { class: "breakdown serving-parts" });
  const show = (): void => parts.replaceChildren(phases(app), ...latency(app), slow(app));
  host.append(h("p", { class: "quiet caption", text: note && `${note[0].toUpperCase()}${note.slice(1)}.` }), parts);
  show();
  return { update: (changed) => void (changed.has("theme") && show()) };
}

const COLUMNS: [column: string, title: string, shown: (value: number) => string][] = [
  ["iterations", "passes", formatCount],
  ["requests", "requests", (value) => formatCount(Math.round(value))],
  ["tokens_per_s", "tokens/s", (value) => formatCount(Math.round(value))],
  ["median_ms", "a pass", formatMs],
  ["percent", "of the time", formatPercent],
  ["busy_percent", "GPU busy", formatPercent],
  ["mfu_percent", "MFU", formatPercent],
  ["mbu_percent", "MBU", formatPercent],
];

function phases(app: App): HTMLElement {
  const table = app.wholeTable("serving_phases");
  const rows = Array.from({ length: table.rows }, (_, row) => row);
  const used = COLUMNS.filter(([name]) => rows.some((row) => !Number.isNaN(table.number(name, row))));
  const head = used.map(([name, title]) => h("th", { text: title, title: table.column(name).meaning, attrs: { scope: "col" } }));
  return h(
    "div",
    {},
    h("h3", { text: "Prefill against decode" }),
    h(
      "table",
      { class: "serving" },
      h("thead", {}, h("tr", {}, h("td"), ...head)),
      h("tbody", {}, ...rows.flatMap((row) => phaseRows(app, table, row, used))),
    ),
    link(app, "passes as a table", { to: "table", table: "iterations" }),
    link(app, "phases as a table", { to: "table", table: "serving_phases" }),
  );
}

/** A phase's figures, and below them what its GPU time is made of. */
function phaseRows(app: App, table: Table, row: number, columns: typeof COLUMNS): HTMLElement[] {
  const phase = table.text("phase", row);
  const own: Target = { to: "table", table: "iterations", filter: phase === "all" ? "" : `phase:${phase}` };
  const figures = columns.map(([name, , shown]) => {
    const value = table.number(name, row);
    return h("td", { class: "num", text: Number.isNaN(value) ? "–" : shown(value) });
  });
  const line = h("tr", {}, h("th", { attrs: { scope: "row" } }, link(app, phase, own)), ...figures);
  const parts = categoriesOf(app, phase);
  if (!parts.length) return [line];
  const bar = h("div", { class: "whole-bar", attrs: { role: "img" } });
  showBar(bar, app, parts);
  return [line, h("tr", {}, h("td", { attrs: { colspan: String(columns.length + 1) } }, bar))];
}

function categoriesOf(app: App, phase: string): Part[] {
  if (!app.hasTable("serving_categories")) return [];
  const table = app.wholeTable("serving_categories");
  return Array.from({ length: table.rows }, (_, row) => row)
    .filter((row) => table.text("phase", row) === phase)
    .map((row): Part => {
      const name = table.text("kernel_category", row);
      return { name, percent: table.number("percent", row), colour: app.palette.category(name) };
    });
}

function latency(app: App): HTMLElement[] {
  if (!app.hasTable("token_latency")) return [];
  const table = app.wholeTable("token_latency");
  const whole = table.rows ? table.find("part", WHOLE) : -1;
  if (whole < 0) return [];
  const ms = (name: string, row: number): string => formatMs(table.number(name, row));
  const bars = Array.from({ length: table.rows }, (_, row) => row)
    .filter((row) => row !== whole)
    .map((row): Bar => ({
      name: table.text("part", row),
      percent: table.number("percent", row),
      colour: "var(--accent)",
      figures: `${ms("mean_ms", row)} · p99 ${ms("p99_ms", row)}`,
      title: table.text("meaning", row),
      go: () => app.go({ to: "table", table: "token_latency", row }),
    }));
  const note = ["p50", "p90", "p99", "max"].map((name) => `${name} ${ms(`${name}_ms`, whole)}`).join(" · ");
  const about = `${note}. Below, parts of the mean, ${ms("mean_ms", whole)}.`;
  return [barList("Between two tokens", about, bars, "", () => app.go({ to: "table", table: "token_latency" }))];
}

/** Passes to look at on the timeline: a usual one, and those that kept tokens waiting for much longer. */
function slow(app: App): HTMLElement {
  const passes = app.wholeTable("iterations");
  const usual = usualPass(passes);
  const table = app.hasTable("slow_iterations") ? app.wholeTable("slow_iterations") : null;
  const entries = Array.from({ length: Math.min(SHOWN_SLOW, table?.rows ?? 0) }, (_, row) => {
    const number = table!.number("iteration", row);
    const interval = table!.number("interval_ms", row);
    const text = `pass ${number}: ${formatMs(interval)}, ${table!.text("parts", row)}`;
    return h("li", {}, link(app, text, rangeOf(passes, number, interval)));
  });
  const more = (table?.rows ?? 0) - entries.length;
  return h(
    "div",
    {},
    h("h3", { text: "Passes on the timeline" }),
    h("p", {
      class: "quiet",
      text: table?.rows ? "A usual one, and the slowest from token to token, with what made them slow." : "None is slow.",
    }),
    h(
      "ul",
      { class: "serving-slow" },
      usual >= 0 && h("li", {}, link(app, `pass ${usual}, a usual one: ${formatMs(timeOf(passes, usual))}`, rangeOf(passes, usual))),
      ...entries,
      more > 0 && h("li", {}, link(app, `${formatCount(more)} more slow passes`, { to: "table", table: "slow_iterations" })),
    ),
  );
}

/** The pass whose time is the middle one, of those that generate where there are any; -1 for none. */
function usualPass(passes: Table): number {
  const all = Array.from({ length: passes.rows }, (_, row) => row).filter((row) => passes.number("time_ms", row) > 0);
  const some = all.filter((row) => passes.number("decode_tokens", row) > 0);
  const generating = some.length ? some : all;
  generating.sort((a, b) => passes.number("time_ms", a) - passes.number("time_ms", b));
  const middle = generating[(generating.length - 1) >> 1] as number | undefined;
  return middle === undefined ? -1 : passes.number("iteration", middle);
}

function timeOf(passes: Table, iteration: number): number {
  return passes.number("time_ms", passes.column("iteration").values.indexOf(iteration));
}

/** A pass up to the end of its GPU work, from `intervalMs` before that. */
function rangeOf(passes: Table, iteration: number, intervalMs = timeOf(passes, iteration)): Target {
  const row = passes.column("iteration").values.indexOf(iteration);
  const [start, time, gap] = ["gpu_start_ms", "time_ms", "gap_ms"].map((name) => passes.number(name, row));
  const until = Math.round(1e6 * (start + time - gap));
  return { to: "range", from: Math.round(until - 1e6 * intervalMs), until };
}

function link(app: App, text: string, target: Target): HTMLElement {
  return h("button", { class: "link", text, on: { click: () => app.go(target) } });
}
