// What stands beside the lanes for a moment of a counter: its parts then, and who holds the peak.
import type { App } from "../../app";
import type { Table } from "../../data/table";
import { h } from "../../../shared/dom";
import { formatBytes, formatMoment, formatPercent } from "../../../shared/format";
import type { Counter } from "./counters";
import type { Model, Moment } from "./model";

const HOLDERS_SHOWN = 15;
/** Reserved by the allocator, and no part of what is allocated. */
const BESIDE = ["cache", "fragmentation"];

export function momentDetails(model: Model, { counter, time }: Moment, isChosen = true): HTMLElement {
  const row = counter.rowAt(time);
  const isPeak = row === counter.peak;
  const before = counter.heldBefore && time < counter.starts[0] ? ", before the first change on record, whose values these are" : "";
  const close = h("button", {
    text: "×",
    title: "Close (Esc)",
    attrs: { "aria-label": "Close details" },
    on: { click: () => model.choose(null) },
  });
  const toPeak = h("button", {
    text: "Go to the peak",
    on: { click: () => model.choose({ counter, time: counter.starts[counter.peak] }) },
  });
  return h(
    "div",
    { class: "tl-description" },
    h(
      "div",
      { class: "tl-titlebar" },
      h("h3", { text: `${counter.title}: ${row < 0 ? "no value yet" : counter.shown(counter.total[row])}` }),
      isChosen && close,
    ),
    h("p", { text: `${isPeak ? "The peak, at" : "At"} ${formatMoment(time, model.viewport.span / 100)}${before}` }),
    h(
      "div",
      { class: "tl-actions" },
      !isPeak && toPeak,
      h("button", { text: `Table ${counter.table}`, on: { click: () => model.app.go({ to: "table", table: counter.table }) } }),
    ),
    parts(counter, row),
    counter.holders ? holders(model.app, counter, isPeak) : null,
  );
}

function parts(counter: Counter, row: number): HTMLElement | null {
  if (row < 0) return null;
  const shown = counter.series
    .map(({ name, colour, values }) => ({ name, colour, value: values[row] || 0 }))
    .filter(({ value }) => value > 0);
  const whole = counter.total[row] || 1;
  shown.sort((a, b) => b.value - a.value);
  const items = shown.map(({ name, colour, value }) =>
    entry(
      name,
      `${counter.shown(value)}${counter.stacked ? ` · ${formatPercent((100 * value) / whole)}` : ""}`,
      value / shown[0].value,
      colour,
    ),
  );
  const line =
    counter.line && counter.line.values[row] > 0
      ? h("p", { class: "quiet", text: `${counter.line.name}: ${counter.shown(counter.line.values[row])}` })
      : null;
  return h("div", { class: "tl-part" }, h("ol", {}, ...items), line);
}

/** The rows of the table of holders for this track, the largest first; what the allocator keeps beside them is apart. */
function holders(app: App, counter: Counter, isPeak: boolean): HTMLElement {
  const table = app.wholeTable(counter.holders);
  const mine = Array.from({ length: table.rows }, (_, row) => row).filter((row) =>
    counter.which.every(([column, value]) => !table.has(column) || table.text(column, row) === value),
  );
  const isBeside = (row: number): boolean => BESIDE.includes(table.text("category", row));
  const own = mine.filter((row) => !isBeside(row));
  const beside = mine.filter(isBeside);
  const reserved = counter.line?.values[counter.peak] || mine.reduce((sum, row) => sum + table.number("bytes", row), 0);
  const shown = own.slice(0, HOLDERS_SHOWN);
  const more = own.length - shown.length;
  return h(
    "div",
    { class: "tl-part" },
    h("h4", { text: isPeak ? "Who holds it" : "Who holds the peak" }),
    h("ol", {}, ...holderEntries(app, counter, table, shown, counter.total[counter.peak])),
    more > 0 &&
      h("button", {
        class: "link",
        text: `${more} more in ${counter.holders}`,
        on: { click: () => app.go({ to: "table", table: counter.holders }) },
      }),
    beside.length > 0 && h("h4", { text: `Not allocated, of ${formatBytes(reserved)} reserved` }),
    beside.length > 0 && h("ol", {}, ...holderEntries(app, counter, table, beside, reserved)),
  );
}

/** With their shares of a whole. */
function holderEntries(app: App, counter: Counter, table: Table, rows: number[], whole: number): HTMLElement[] {
  const largest = Math.max(...rows.map((row) => table.number("bytes", row)), 1);
  return rows.map((row) => {
    const of = (name: string): string => (table.has(name) ? table.text(name, row) : "");
    const [category, bytes] = [of("category"), table.number("bytes", row)];
    const where = [of("name"), of("module"), of("op"), of("line")].filter((text, at, all) => text && all.indexOf(text) === at);
    const series = counter.series.find(({ name }) => name === category.replaceAll("_", " "));
    const line = entry(
      category,
      `${formatBytes(bytes)} · ${formatPercent((100 * bytes) / (whole || 1))}`,
      bytes / largest,
      series?.colour ?? "var(--quiet)",
      () => app.go({ to: "table", table: counter.holders, row }),
    );
    if (where.length) line.append(h("p", { class: "tl-holder quiet", text: where.join(" · "), title: where.join("\n") }));
    return line;
  });
}

function entry(name: string, figures: string, share: number, colour: string, go?: () => void): HTMLElement {
  const bar = h("i", { class: "tl-part-bar" });
  bar.style.cssText = `width:${100 * share}%;background:${colour}`;
  const label = go ? h("button", { class: "tl-link", text: name, on: { click: go } }) : h("span", { class: "tl-link", text: name });
  return h("li", {}, h("span", { class: "tl-line" }, label, h("span", { class: "quiet", text: figures })), bar);
}
