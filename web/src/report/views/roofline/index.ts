// The roofline: how fast each op runs against what the GPU can do, and where most time is lost.
import type { App, View } from "../../app";
import { h, replace, s } from "../../../shared/dom";
import { formatCount, formatPercent } from "../../../shared/format";
import type { Changed } from "../../state";
import { firstNote, sentence, uncosted, whyNoCosts } from "../tables/empty";
import { axes, ceilingLines, stripLines } from "./axes";
import { Dots } from "./dots";
import { layOut, type Layout } from "./layout";
import { legend } from "./legend";
import { losses } from "./losses";
import { ceilingsOf, hasFlops, isCompute, movesData, pointsOf, usedCeilings, type Ceiling, type Point } from "./points";
import { Tip } from "../../../shared/tip";

export function mountRoofline(host: HTMLElement, app: App): View {
  if (!app.hasTable("roofline")) {
    host.append(h("p", { class: "empty", text: "This page has no roofline." }));
    return { update: () => undefined };
  }
  return new RooflineView(host, app);
}

class RooflineView implements View {
  private readonly tip = new Tip();
  private readonly dots: Dots;
  private readonly plot = h("div", { class: "rl-plot" });
  private readonly svg = s("svg", { role: "group", class: "rl-svg" });
  private readonly beyond = h("p");
  private readonly hidden = new Set<string>();
  private readonly ceilings: Ceiling[];
  private points: Point[] = [];
  private everyCeiling = false;
  private width = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly app: App,
  ) {
    this.ceilings = ceilingsOf(app);
    this.dots = new Dots(app.palette, this.tip, (point) => this.open(point));
    this.plot.append(this.svg);
    new ResizeObserver(() => this.resized()).observe(this.plot);
    this.load();
  }

  update(changed: Changed): void {
    if (changed.has("steps") || changed.has("range")) this.load();
    else if (changed.has("theme")) this.show();
    else if (changed.has("row") || changed.has("table") || changed.has("q")) this.highlight();
  }

  private load(): void {
    this.points = pointsOf(this.app.table("roofline"));
    this.show();
  }

  private show(): void {
    if (!this.points.length) return replace(this.host, this.scope(), ...this.whyEmpty());
    const hasPlot = this.points.some((point) => hasFlops(point) || movesData(point));
    const chart = h("div", { class: "rl-chart" }, this.controls(), hasPlot ? this.plot : null, ...this.notes());
    replace(
      this.host,
      this.scope(),
      h(
        "div",
        { class: "rl-columns" },
        chart,
        losses(this.points, (point) => this.open(point)),
      ),
    );
    this.draw();
  }

  private scope(): HTMLElement | null {
    const { app } = this;
    return app.scene && !app.selection.whole ? h("p", { class: "rl-scope", text: `Describes ${app.selection.text}.` }) : null;
  }

  private controls(): HTMLElement {
    const more = this.points.some(hasFlops) && this.ceilings.filter(isCompute).length > usedCeilings(this.points, this.ceilings).length;
    const all = h("input", { attrs: { type: "checkbox" } });
    all.checked = this.everyCeiling;
    all.addEventListener("change", () => {
      this.everyCeiling = all.checked;
      this.draw();
    });
    return h(
      "div",
      { class: "rl-controls" },
      legend(this.points, this.hidden, this.app.palette, (family) => this.toggle(family)),
      h("span", { class: "rl-ways" }, more && h("label", {}, all, " all ceilings"), this.tableButton("roofline", "As a table")),
    );
  }

  private tableButton(table: string, text: string, filter = ""): HTMLElement {
    return h("button", { text, on: { click: () => this.app.go({ to: "table", table, filter }) } });
  }

  private toggle(family: string): void {
    if (!this.hidden.delete(family)) this.hidden.add(family);
    this.show();
    // The button that was pressed has been made anew.
    const again = [...this.host.querySelectorAll<HTMLElement>(".rl-legend button")].find((button) => button.textContent === family);
    again?.focus();
  }

  private resized(): void {
    if (this.plot.clientWidth && this.plot.clientWidth !== this.width) this.draw();
  }

  private draw(): void {
    this.width = this.plot.clientWidth;
    if (!this.width) return;
    const visible = this.points.filter(({ family }) => !this.hidden.has(family));
    const plotted = visible.filter((point) => hasFlops(point) || movesData(point));
    const shown = this.everyCeiling ? this.ceilings.filter(isCompute) : usedCeilings(this.points, this.ceilings);
    const named = (name: string): Ceiling | null => this.ceilings.find((ceiling) => ceiling.name === name) ?? null;
    const bandwidth = named("memory");
    const link = plotted.some(({ bound }) => bound === "host link") ? named("host link") : null;
    const layout = layOut(this.width, plotted, shown, bandwidth, link);
    const hasChart = plotted.some(hasFlops);
    this.dots.draw(plotted, layout);
    for (const [name, value] of Object.entries({ width: layout.width, height: layout.height })) this.svg.setAttribute(name, String(value));
    this.svg.setAttribute("aria-label", this.spoken(plotted, layout));
    replace(
      this.svg,
      ...axes(layout, hasChart),
      ...(hasChart ? ceilingLines(layout, shown, bandwidth, plotted) : []),
      ...stripLines(
        layout,
        [bandwidth, link].filter((ceiling): ceiling is Ceiling => ceiling !== null),
      ),
      this.dots.element,
    );
    this.beyond.textContent = layout.beyond ? `${opsText(layout.beyond)} slower than the chart reaches: drawn on its edge.` : "";
    this.highlight();
  }

  private spoken(plotted: Point[], { strip }: Layout): string {
    const below = strip ? "; a strip below shows ops without FLOPs by TB/s" : "";
    return `Roofline: ${plotted.length} ops by FLOP per byte and TFLOP/s${below}. Arrow keys go from dot to dot, those with most time first.`;
  }

  private highlight(): void {
    const { store } = this.app;
    const row = store.get("table") === "roofline" ? (store.get("row") ?? -1) : -1;
    this.dots.highlight(row, store.get("q").trim().toLowerCase());
  }

  private open({ origin }: Point): void {
    this.app.go({ to: "table", table: "roofline", row: origin });
  }

  /** What the chart leaves out, or takes on trust. */
  private notes(): HTMLElement[] {
    const paragraphs = [...uncosted(this.app), ...this.describe()].map((text) => h("p", { text }));
    const table = this.app.table("roofline");
    return [
      h(
        "div",
        { class: "rl-notes quiet" },
        this.beyond,
        ...paragraphs,
        ...table.notes.map((text) => h("p", { text })),
        this.tableButton("cost_coverage", "Table cost_coverage"),
        " ",
        this.tableButton("ceilings", "Table ceilings"),
      ),
    ];
  }

  private describe(): string[] {
    const nowhere = this.points.filter((point) => !hasFlops(point) && !movesData(point)).length;
    const moving = this.points.filter(movesData);
    const all = this.points.reduce((sum, { totalUs }) => sum + totalUs, 0);
    const share = formatPercent((100 * moving.reduce((sum, { totalUs }) => sum + totalUs, 0)) / (all || 1));
    const unknown = firstNote(this.app, ["unknown_gpu"]);
    return [
      "A dot is an op with its sizes; its area is its time, its shape its family. Solid lines are measured ceilings, dashed ones the data sheet's; hollow dots carry a flag.",
      ...(moving.length
        ? [`${opsText(moving.length)} (${share} of the time shown) without FLOPs: in the strip below the chart, by bandwidth.`]
        : []),
      ...(nowhere ? [`${opsText(nowhere)} with neither FLOPs nor bytes: only in the table.`] : []),
      ...(unknown ? [sentence(unknown)] : []),
    ];
  }

  private whyEmpty(): HTMLElement[] {
    const { app } = this;
    const partial = app.scene && !app.selection.whole && app.wholeTable("roofline").rows > 0;
    const reasons = partial ? [`No op with a known cost is in ${app.selection.text}.`] : whyNoCosts(app);
    const unknown = firstNote(app, ["unknown_gpu"]);
    const texts = [...reasons, ...(unknown ? [sentence(unknown)] : [])];
    return [
      ...(texts.length ? texts : ["No op of this trace has known FLOPs and bytes."]).map((text) => h("p", { class: "empty", text })),
      ...(app.scene?.hasGpu ? [this.tableButton("cost_coverage", "Table cost_coverage")] : []),
    ];
  }
}

function opsText(count: number): string {
  return `${formatCount(count)} ${count === 1 ? "op" : "ops"}`;
}
