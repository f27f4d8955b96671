// Call tree: a flame graph with the root on top, or the same as a list; drawn when it comes near the window.
import type { App, View } from "../../app";
import { h, replace, whenIdle } from "../../../shared/dom";
import { formatCount, formatPercent } from "../../../shared/format";
import type { Changed } from "../../state";
import { tableTarget } from "./actions";
import { Chart } from "./chart";
import { comparisonSource } from "./comparison";
import { HINTS, showCrumbs, showDetail } from "./detail";
import { matchedBelow, matchesOf, type Look } from "./facts";
import { saveButtons } from "./files";
import { TreeList } from "./list";
import { reportSource } from "./report";
import type { Source } from "./source";
import { sumsSource } from "./sums";
import { ROOT } from "./tree";
import { ALL, isWhole, readZoom, zoomPath, type Zoom } from "./zoom";

export { treeTable } from "./table";

const NEAR_PX = 600;

export function mountFlame(host: HTMLElement, app: App): View {
  return new FlameView(host, app);
}

class FlameView implements View {
  private readonly source: Source;
  private readonly chart: Chart;
  private readonly list: TreeList;
  private readonly text = h("p", { class: "flame-text", attrs: { role: "status" } });
  private readonly crumbs = h("nav", { class: "flame-crumbs", attrs: { "aria-label": "Zoomed into" } });
  private readonly detail = h("p", { class: "flame-detail", attrs: { "aria-live": "polite" } });
  private readonly legend = h("p", { class: "flame-legend", attrs: { "aria-label": "Colours" } });
  private readonly asTable: HTMLElement;
  private look: Look | null = null;
  private caption = "";
  private shownZoom: Zoom = { root: ROOT, span: ALL };
  private cursor = -1;
  private isNear = false;
  private isStale = true;
  private timer = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly app: App,
  ) {
    this.source = app.scene ? reportSource(app, app.scene) : app.isDiff ? comparisonSource(app) : sumsSource(app);
    const zoom = (frame: number): void => this.zoomTo(frame);
    this.chart = new Chart(app.palette, {
      zoom,
      choose: (frame) => this.choose(frame),
      stretch: (span) => this.setZoom({ ...this.shownZoom, span }),
      zoomOut: () => this.zoomOut(),
      open: (frame) => this.openTable(frame),
    });
    this.list = new TreeList((frame) => this.choose(frame));
    this.asTable = h("button", {
      text: "As table",
      attrs: { "aria-pressed": "false" },
      on: { click: () => this.toggleTable() },
    });
    const saves = saveButtons(this.source, app.palette, () => this.look && { look: this.look, zoom: this.shownZoom });
    const tools = h("div", { class: "flame-tools" }, ...this.source.controls, this.asTable, saves);
    host.classList.add("flame");
    host.append(tools, this.text, this.crumbs, this.chart.element, this.list.element, this.detail, this.legend);
    this.list.element.hidden = true;
    new IntersectionObserver((entries) => this.watch(entries), { rootMargin: `${NEAR_PX}px` }).observe(host);
    // Not near yet, but soon: once the page has nothing else to do.
    whenIdle(() => this.isStale && !this.source.isSlow() && this.make());
  }

  update(changed: Changed): void {
    if (this.source.keys.some((key) => changed.has(key))) {
      this.isStale = true;
      this.cursor = -1;
      this.source.sync();
      this.makeIfNear();
    } else if (this.look && !this.isStale) {
      if (changed.has("zoom")) this.shownZoom = readZoom(this.look.frames, this.app.store.get("zoom"));
      if (changed.has("theme")) this.recolour();
      if (changed.has("zoom") || changed.has("q") || changed.has("theme")) this.refresh();
    }
  }

  private watch(entries: IntersectionObserverEntry[]): void {
    this.isNear = entries[entries.length - 1].isIntersecting;
    this.makeIfNear();
  }

  private makeIfNear(): void {
    if (!this.isNear || !this.isStale) return;
    clearTimeout(this.timer);
    if (!this.source.isSlow()) return this.make();
    this.text.textContent = "…";
    this.host.setAttribute("aria-busy", "true");
    this.timer = window.setTimeout(() => this.make());
  }

  private make(): void {
    const { look, text, button } = this.source.make();
    this.isStale = false;
    this.look = look;
    this.caption = text;
    if (look) this.shownZoom = readZoom(look.frames, this.app.store.get("zoom"));
    this.host.removeAttribute("aria-busy");
    this.host.classList.add("is-made");
    this.host.classList.toggle("is-empty", !look);
    if (!look) return replace(this.text, text, " ", button);
    this.recolour();
    this.refresh();
  }

  private refresh(): void {
    const { look, shownZoom: zoom, cursor } = this;
    if (!look) return;
    const matches = matchesOf(look.frames, this.app.store.get("q"));
    this.text.textContent = `${this.caption} ${this.matchText(look, matches)}`;
    showCrumbs(this.crumbs, look, zoom, (frame) => this.zoomTo(frame));
    this.showChosen(look);
    if (this.isList) this.list.show(look, zoom.root, matches);
    else this.chart.show({ look, zoom, cursor, matches }, `Flame graph: ${this.caption} Arrow keys move, Enter zooms in, Backspace out.`);
  }

  private matchText({ frames, weightText }: Look, matches: Uint8Array | null): string {
    if (!matches) return "";
    const { weight, count } = matchedBelow(frames, matches, this.shownZoom.root);
    const share = formatPercent((100 * weight) / frames.width[this.shownZoom.root]);
    const where = this.shownZoom.root === ROOT ? weightText : "what is zoomed into";
    return `“${this.app.store.get("q").trim()}” is in ${formatCount(count)} frames: ${share} of ${where}.`;
  }

  private recolour(): void {
    if (!this.look) return;
    this.look.recolour();
    this.showLegend(this.look);
  }
  private showLegend(look: Look): void {
    const entries = look.legend().map(([text, colour]) => {
      const swatch = h("i", { class: "swatch" });
      swatch.style.background = colour;
      return h("span", {}, colour ? swatch : null, text);
    });
    replace(this.legend, ...entries);
  }

  private zoomTo(frame: number): void {
    this.cursor = frame;
    this.setZoom({ root: frame, span: ALL });
  }
  private setZoom(zoom: Zoom): void {
    if (!this.look) return;
    const before = this.app.store.text("zoom");
    this.app.store.set({ zoom: zoomPath(this.look.frames, zoom) });
    if (this.app.store.text("zoom") === before) this.refresh();
  }
  /** From a stretch to the whole frame, from a frame to its caller. */
  private zoomOut(): void {
    const { root, span } = this.shownZoom;
    if (!this.look || (root === ROOT && isWhole(span))) return;
    this.setZoom({ root: isWhole(span) ? this.look.frames.parent[root] : root, span: ALL });
  }
  private choose(frame: number): void {
    this.cursor = frame;
    if (this.look) this.showChosen(this.look);
  }
  private showChosen(look: Look): void {
    const hint = this.isList ? HINTS.list : HINTS.chart;
    showDetail(this.detail, this.app, look, this.cursor, hint, (frame) => this.zoomTo(frame));
  }
  private openTable(frame: number): void {
    const target = this.look && tableTarget(this.app, this.look.frames, frame);
    if (target) this.app.go(target);
  }
  private get isList(): boolean {
    return !this.list.element.hidden;
  }
  private toggleTable(): void {
    const asList = !this.isList;
    this.list.element.hidden = !asList;
    this.chart.element.hidden = asList;
    this.asTable.setAttribute("aria-pressed", String(asList));
    this.refresh();
  }
}
