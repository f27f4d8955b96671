// What changed from A to B, part by part: the first thing to see of a comparison.
import type { App, View } from "../app";
import type { Table } from "../data/table";
import { h } from "../dom";
import { formatNs, formatPercent } from "../format";

const SHOWN = 12;

export function mountChanges(host: HTMLElement, app: App): View {
  if (!app.hasTable("diff_summary")) {
    host.append(h("p", { class: "empty", text: "Two reports are compared here, table by table; the traces themselves would show where a change comes from." }));
    return { update: () => undefined };
  }
  const table = app.wholeTable("diff_summary");
  const largest = Math.max(...Array.from({ length: table.rows }, (_, row) => Math.abs(table.number("delta_us", row))), 1e-9);
  const rows = Array.from({ length: Math.min(SHOWN, table.rows) }, (_, row) => changeRow(app, table, row, largest));
  const heads = ["", "A", "B", "B − A", "", "what changed"].map((text) => h("th", { text, attrs: { scope: "col" } }));
  host.append(
    h("p", { class: "quiet", text: `${table.notes.join("; ")}. ~ marks what lies inside the runs' own spread.` }),
    h("div", { class: "wide" }, h("table", { class: "changes" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows))),
    h("button", {
      class: "link",
      text: table.rows > SHOWN ? `${table.rows - SHOWN} more, as a table` : "as a table",
      attrs: { type: "button" },
      on: { click: () => app.go({ to: "table", table: "diff_summary" }) },
    }),
  );
  return { update: () => undefined };
}

function changeRow(app: App, table: Table, row: number, largest: number): HTMLElement {
  const delta = table.number("delta_us", row);
  const name = table.text("part", row);
  const kind = table.text("kind", row);
  const category = kind === "kernel category";
  const isTotal = kind === "total";
  const noise = table.number("within_noise", row) === 1 ? " ~" : "";
  const ratio = table.number("ratio", row);
  const swatch = h("i", { class: "swatch" });
  swatch.style.background = category ? app.palette.category(name) : "transparent";
  const go = (): void => app.go({ to: "table", table: category ? "diff_kernels" : "diff_summary", filter: category ? `"${name}"` : "", row });
  const link = h("button", { class: "link", text: kind === "idle" ? `idle: ${name}` : name, attrs: { type: "button" }, on: { click: go } });
  return h(
    "tr",
    { class: isTotal ? "total" : "" },
    h("th", { attrs: { scope: "row" } }, swatch, link),
    h("td", { class: "num", text: formatNs(1e3 * table.number("a_us", row)) }),
    h("td", { class: "num", text: formatNs(1e3 * table.number("b_us", row)) }),
    h("td", { class: "num", text: `${signed(delta)}${noise}`, title: Number.isNaN(ratio) ? "" : `${formatPercent(100 * ratio)} of A` }),
    h("td", { class: "swing" }, swing(delta / largest)),
    h("td", { class: "quiet", text: table.text("what_changed", row) }),
  );
}

function signed(us: number): string {
  const text = formatNs(1e3 * Math.abs(us));
  return us === 0 ? text : `${us > 0 ? "+" : "−"}${text}`;
}

/** A bar to the left of the middle where B is faster, to the right where it is slower. */
function swing(share: number): HTMLElement {
  const bar = h("span", { class: share < 0 ? "faster" : "slower" });
  bar.style.width = `${50 * Math.abs(share)}%`;
  bar.style.marginLeft = share < 0 ? `${50 + 50 * share}%` : "50%";
  return bar;
}
