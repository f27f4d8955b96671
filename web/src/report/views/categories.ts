// Where the GPU time of a profile without a timeline went: by kernel category, by kernel, and in kernels that were
// sampled by source line.
import type { App, View } from "../app";
import { h, replace } from "../../shared/dom";
import { formatMs, formatPercent, formatPlural } from "../../shared/format";
import { barList, categoryList, categoryParts, showBar, type Bar } from "./steps";

/** Whether there is any time to show, or lines that wait. */
export function hasCategories(app: App): boolean {
  return hasTimes(app) || sampledRows(app).length > 0;
}

function hasTimes(app: App): boolean {
  return (
    app.hasTable("kernel_categories") &&
    app
      .wholeTable("kernel_categories")
      .column("percent")
      .values.some((percent) => percent > 0)
  );
}

export function mountCategories(host: HTMLElement, app: App): View {
  const bar = h("div", { class: "whole-bar", attrs: { role: "img" } });
  const lists = h("div", { class: "breakdown" });
  host.append(bar, lists);
  const show = (): void => {
    const times = hasTimes(app);
    bar.hidden = !times;
    if (times) showBar(bar, app, categoryParts(app, 100));
    replace(
      lists,
      times && categoryList(app),
      times && app.hasTable("kernels") && kernelList(app),
      sampledRows(app).length > 0 && lineList(app),
    );
  };
  show();
  return {
    update(changed) {
      if (changed.has("theme")) show();
    },
  };
}

function kernelList(app: App): HTMLElement {
  const table = app.wholeTable("kernels");
  const sums = new Map<string, { percent: number; us: number; count: number; category: string }>();
  for (let row = 0; row < table.rows; row++) {
    const name = table.text("kernel_short", row);
    const sum = sums.get(name) ?? { percent: 0, us: 0, count: 0, category: table.text("kernel_category", row) };
    sum.percent += table.number("percent", row);
    sum.us += table.number("total_us", row);
    sum.count += table.number("count", row);
    sums.set(name, sum);
  }
  const bars = [...sums].map(([name, { percent, us, count, category }]): Bar => ({
    name,
    percent,
    colour: app.palette.category(category),
    figures: `${formatMs(us / 1e3)} · ${formatPlural(count, "call")}`,
    title: `${name} · ${category}`,
    go: () => app.go({ to: "table", table: "kernels", filter: `kernel_short="${name.replaceAll('"', "")}"` }),
  }));
  bars.sort((a, b) => b.percent - a.percent);
  const note = "All calls of a kernel together; click for who called it.";
  return barList("GPU time by kernel", note, bars, "No kernel is in this profile.", () => app.go({ to: "table", table: "kernels" }));
}

/** The rows of `stalls` that have a line: those with most samples first, as in the table. */
function sampledRows(app: App): number[] {
  if (!app.hasTable("stalls")) return [];
  const lines = app.wholeTable("stalls").column("line").values;
  return Array.from(lines, (_, row) => row).filter((row) => lines[row] > 0);
}

function lineList(app: App): HTMLElement {
  const table = app.wholeTable("stalls");
  const bars = sampledRows(app).map((row): Bar => {
    const [file, reason] = [table.text("file", row), table.text("top_stall", row)];
    const line = table.textOf(table.column("line"), row);
    return {
      name: `${file.split(/[\\/]/).at(-1)}:${line}`,
      percent: table.number("percent", row),
      colour: "var(--accent)",
      figures: reason ? `${reason.replaceAll("_", " ")} ${formatPercent(table.number("top_stall_percent", row))}` : "",
      title: [table.text("source", row).trim(), `${table.text("kernel_short", row)} · ${file}`].filter(Boolean).join("\n"),
      go: () => app.go({ to: "table", table: "stalls", row }),
    };
  });
  const note = "Shares of all samples of warps, with what they waited for most; point at a line for its text.";
  return barList("Samples by source line", note, bars, "", () => app.go({ to: "table", table: "stalls" }));
}
