// Where the GPU time of a profile without a timeline went: by kernel category, and by kernel.
import type { App, View } from "../app";
import { h, replace } from "../../shared/dom";
import { formatMs, formatPlural } from "../../shared/format";
import { barList, categoryList, categoryParts, showBar, type Bar } from "./steps";

/** Whether there is any time to show. */
export function hasCategories(app: App): boolean {
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
    showBar(bar, app, categoryParts(app, 100));
    replace(lists, categoryList(app), app.hasTable("kernels") && kernelList(app));
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
