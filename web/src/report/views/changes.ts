// What changed from A to B, part by part: the first thing to see of a comparison.
import type { App, View } from "../app";
import type { Table } from "../data/table";
import { h } from "../../shared/dom";
import { formatCount, formatNs, formatPercent } from "../../shared/format";

const SHOWN = 12;

/** One line: a part of the time in A and in B, in µs. */
interface Change {
  name: string;
  category: string;
  isTotal: boolean;
  a: number;
  b: number;
  noise: boolean;
  what: string;
  go(): void;
}

interface Changes {
  note: string;
  rows: Change[];
  /** The table that holds them all. */
  table: string;
}

export function mountChanges(host: HTMLElement, app: App): View {
  const changes = changesOf(app);
  if (!changes.rows.length) host.append(h("p", { class: "empty", text: changes.note }));
  else show(host, app, changes);
  return { update: () => undefined };
}

function changesOf(app: App): Changes {
  if (app.hasTable("diff_summary")) return ofTraces(app, app.wholeTable("diff_summary"));
  if (app.hasTable("kernel_categories") && app.wholeTable("kernel_categories").has("a_total_us"))
    return ofCategories(app, app.wholeTable("kernel_categories"));
  const what = app.hasTable("diff_tree") ? "Neither profile has times; the call tree and the tables compare what they count." : JOBS;
  return { note: what, rows: [], table: "" };
}

const JOBS = "Two jobs are compared here, table by table; with --rank N, warplens diff shows what changed on one rank.";

function ofTraces(app: App, table: Table): Changes {
  const rows = Array.from({ length: table.rows }, (_, row): Change => {
    const [part, kind] = [table.text("part", row), table.text("kind", row)];
    const isCategory = kind === "kernel category";
    return {
      name: kind === "idle" ? `idle: ${part}` : part,
      category: isCategory ? part : "",
      isTotal: kind === "total",
      a: table.number("a_us", row),
      b: table.number("b_us", row),
      noise: table.number("within_noise", row) === 1,
      what: table.text("what_changed", row),
      go: () => app.go({ to: "table", table: isCategory ? "diff_kernels" : "diff_summary", filter: isCategory ? `"${part}"` : "", row }),
    };
  });
  const notes = table.notes.join("; ");
  const note = `${notes.charAt(0).toUpperCase()}${notes.slice(1)}. ~ marks changes within the runs' own spread.`;
  return { note, rows, table: "diff_summary" };
}

/** Without timelines: all GPU time, and that of each kernel category. */
function ofCategories(app: App, table: Table): Changes {
  const rows = Array.from({ length: table.rows }, (_, row): Change => {
    const name = table.text("kernel_category", row);
    const [a, b] = ["a_count", "b_count"].map((column) => formatCount(table.number(column, row) || 0));
    return {
      name,
      category: name,
      isTotal: false,
      a: table.number("a_total_us", row) || 0,
      b: table.number("b_total_us", row) || 0,
      noise: false,
      what: `${a} → ${b} GPU events`,
      go: () => app.go({ to: "table", table: app.hasTable("kernels") ? "kernels" : table.name, filter: `kernel_category="${name}"` }),
    };
  });
  rows.sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a));
  const sum = (side: "a" | "b"): number => rows.reduce((all, row) => all + row[side], 0);
  const total: Change = {
    name: "all GPU work",
    category: "",
    isTotal: true,
    a: sum("a"),
    b: sum("b"),
    noise: false,
    what: "",
    go: () => app.go({ to: "table", table: table.name }),
  };
  const note = "GPU time by kernel category; how much it varies from run to run is not known here.";
  return { note, rows: [total, ...rows], table: table.name };
}

function show(host: HTMLElement, app: App, { note, rows, table }: Changes): void {
  const largest = Math.max(...rows.map(({ a, b }) => Math.abs(b - a)), 1e-9);
  const heads = ["", "A", "B", "B − A", "", "what changed"].map((text) => h("th", { text, attrs: { scope: "col" } }));
  const lines = rows.slice(0, SHOWN).map((change) => changeRow(app, change, largest));
  const more = rows.length - SHOWN;
  host.append(
    h("p", { class: "quiet", text: note }),
    h("div", { class: "wide" }, h("table", { class: "changes" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...lines))),
    h("button", {
      class: "link",
      text: more > 0 ? `${more} more, as a table` : "as a table",
      on: { click: () => app.go({ to: "table", table }) },
    }),
  );
}

function changeRow(app: App, { name, category, isTotal, a, b, noise, what, go }: Change, largest: number): HTMLElement {
  const swatch = h("i", { class: "swatch" });
  swatch.style.background = category ? app.palette.category(category) : "transparent";
  const link = h("button", { class: "link", text: name, on: { click: go } });
  return h(
    "tr",
    { class: isTotal ? "total" : "" },
    h("th", { attrs: { scope: "row" } }, swatch, link),
    h("td", { class: "num", text: formatNs(1e3 * a) }),
    h("td", { class: "num", text: formatNs(1e3 * b) }),
    h("td", {
      class: "num",
      text: `${signedNs(1e3 * (b - a))}${noise ? " ~" : ""}`,
      title: a ? `${formatPercent((100 * b) / a)} of A` : "",
    }),
    h("td", { class: "swing" }, swing((b - a) / largest)),
    h("td", { class: "quiet", text: what }),
  );
}

export function signedNs(ns: number): string {
  const text = formatNs(Math.abs(ns));
  return ns === 0 ? text : `${ns > 0 ? "+" : "−"}${text}`;
}

/** A bar to the left of the middle where B is faster, to the right where it is slower. */
export function swing(share: number): HTMLElement {
  const bar = h("span", { class: share < 0 ? "faster" : "slower" });
  bar.style.width = `${50 * Math.abs(share)}%`;
  bar.style.marginLeft = share < 0 ? `${50 + 50 * share}%` : "50%";
  return bar;
}
