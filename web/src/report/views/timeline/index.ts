// The timeline: GPU streams and CPU threads over time. This file puts its parts together.
import type { App, View } from "../../app";
import { h } from "../../../shared/dom";
import { formatCount, formatNs } from "../../../shared/format";
import { countersOf } from "./counters";
import { Details } from "./details";
import { Gutter } from "./gutter";
import { listenToKeys } from "./keyboard";
import { rowTop } from "./layout";
import { Legend } from "./legend";
import { paintMarks } from "./marks";
import { Minimap } from "./minimap";
import { LAID_OUT_BY, LEAST_TALL, Model } from "./model";
import { laneOf } from "./moves";
import { NotesBar } from "./notes";
import { paintLanes } from "./paint";
import { listenToPointer } from "./pointer";
import { paintRuler, rulerHeight } from "./ruler";
import { sideBar } from "./side";
import { sharpCanvas } from "./sharp";
import { CanvasSurface } from "./surface";
import { Tip } from "../../../shared/tip";
import { Toolbar } from "./toolbar";

const TALLEST = 0.6; // of the window
const LEAST_SCROLLED = 100; // below the tracks that the reader pinned

export function mountTimeline(host: HTMLElement, app: App): View {
  if (!app.scenes.some(({ timedCount }) => timedCount > 0) && !countersOf(app).length) {
    const text = "The trace holds no events with a start and a duration, so there is nothing to draw over time.";
    host.append(h("p", { class: "empty", text }));
    return { update: () => undefined };
  }
  const timeline = new Timeline(host, app);
  return { update: (changed) => timeline.update(changed) };
}

class Timeline {
  private readonly model: Model;
  private readonly toolbar: Toolbar;
  private readonly legend: Legend;
  private readonly notes: NotesBar;
  private readonly minimap: Minimap;
  private readonly gutter: Gutter;
  private readonly details: Details;
  private readonly tip = new Tip();
  private readonly canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  private readonly rulerCanvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  private readonly corner = h("div", { class: "tl-corner quiet", title: "Length of the time in view" });
  private readonly ruler = h("div", { class: "tl-ruler" }, this.corner, this.rulerCanvas);
  private readonly pinned = h("div", { class: "tl-pinned" });
  private readonly inner = h("div", { class: "tl-inner" });
  private readonly scroller = h("div", { class: "tl-scroller", attrs: { tabindex: "-1" } }, this.inner);
  private readonly stage: HTMLElement;
  private frame = 0;
  private noteCount: number;

  constructor(
    host: HTMLElement,
    private readonly app: App,
  ) {
    this.noteCount = app.store.get("notes").length;
    this.model = new Model(app, () => this.request());
    this.toolbar = new Toolbar(this.model);
    this.legend = new Legend(this.model);
    this.notes = new NotesBar(this.model);
    this.minimap = new Minimap(this.model);
    this.gutter = new Gutter(this.model, this.pinned, this.inner);
    this.details = new Details(this.model);
    this.stage = h("div", { class: "tl-stage", attrs: stageAttributes(app) }, this.canvas, this.pinned, this.scroller);
    const main = h("div", { class: "tl-main" }, this.minimap.element, this.ruler, this.stage);
    const body = h("div", { class: "tl-body tl-filled" }, main);
    body.append(sideBar(body, this.details.element), this.details.element);
    host.classList.add("tl");
    host.append(...notes(app), this.toolbar.element, this.notes.element, this.legend.element, body, this.legend.kinds);
    this.details.show();
    this.listen(main);
    this.resize();
    this.reveal();
  }

  update(changed: Parameters<View["update"]>[0]): void {
    this.model.update(changed);
    const any = (...keys: Parameters<typeof changed.has>[0][]): boolean => keys.some((key) => changed.has(key));
    if (any("hide", "steps", "range", "colour", "theme", "path")) this.legend.render();
    if (any("steps", "range", "colour", "q", "hide", "event", "offlanes")) this.toolbar.show();
    if (any("notes")) this.showNotes();
    if (any("event", "moment", "theme")) this.details.show();
    if (any(...LAID_OUT_BY)) this.resize();
    if (any("theme")) this.minimap.paint(this.model.viewport.width);
    if (any("event")) this.reveal();
  }

  private showNotes(): void {
    const count = this.app.store.get("notes").length;
    this.notes.show(count > this.noteCount);
    this.noteCount = count;
  }

  private listen(main: HTMLElement): void {
    const { model, stage, scroller, canvas, ruler } = this;
    listenToPointer(model, { stage, scroller, canvas, ruler }, this.tip);
    listenToKeys(model, {
      element: stage,
      scroll: (pixels) => (scroller.scrollTop += pixels),
      openDetails: () => this.details.element.focus(),
    });
    scroller.addEventListener("scroll", () => {
      model.scrolled = scroller.scrollTop;
      this.request();
    });
    new ResizeObserver(() => this.rulerWidth() !== model.viewport.width && this.resize()).observe(main);
    window.addEventListener("resize", () => this.resize());
  }

  /** Sizes everything to the room there is and to the lanes that are open. */
  private resize(): void {
    const { model, stage, scroller } = this;
    const tallest = Math.max(LEAST_TALL, Math.round(window.innerHeight * TALLEST));
    model.resized(this.rulerWidth(), tallest);
    const { pinnedHeight, scrolledHeight } = model.layout;
    model.height = Math.min(Math.max(tallest, pinnedHeight + LEAST_SCROLLED), pinnedHeight + scrolledHeight);
    stage.style.height = `${model.height}px`;
    scroller.style.top = `${pinnedHeight}px`;
    this.gutter.render();
    model.scrolled = scroller.scrollTop;
    this.minimap.paint(model.viewport.width);
  }
  /** The lanes leave room for a scroll bar whether there is one or not: the ruler stays in line with them. */
  private rulerWidth(): number {
    return Math.floor(this.ruler.clientWidth - this.corner.offsetWidth);
  }

  /** Scrolls the lanes to the selected event. */
  private reveal(): void {
    const { model, scroller } = this;
    const lane = model.event && laneOf(model, model.event);
    const placed = model.layout.placed.find((candidate) => candidate.lane === lane);
    if (!model.event || !placed || placed.pinned) return;
    const y = rowTop(model.layout, placed, placed.open ? placed.lane.rowOf(model.event.row) : 0, model.scrolled);
    const [top, bottom] = [model.layout.pinnedHeight, model.height - placed.rowHeight];
    if (y < top) scroller.scrollTop += y - top - placed.rowHeight;
    else if (y > bottom) scroller.scrollTop += y - bottom + placed.rowHeight;
    model.scrolled = scroller.scrollTop;
  }

  private request(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }
  private draw(): void {
    const began = performance.now();
    const { model } = this;
    const lanes = new CanvasSurface(sharpCanvas(this.canvas, model.viewport.width, model.height));
    paintLanes(lanes, model);
    paintMarks(lanes, model);
    paintRuler(new CanvasSurface(sharpCanvas(this.rulerCanvas, model.viewport.width, rulerHeight(model))), model);
    this.minimap.showView();
    this.tip.hide(); // what was under the pointer may have moved away
    this.gutter.refresh();
    this.details.refresh();
    const text = formatNs(model.viewport.span);
    if (this.corner.textContent !== text) this.corner.textContent = text;
    document.dispatchEvent(new CustomEvent("warplens:frame", { detail: performance.now() - began }));
  }
}

function stageAttributes(app: App): Record<string, string> {
  const gpu = app.scenes.reduce((sum, { data }) => sum + data.gpuRow.length, 0);
  const all = app.scenes.reduce((sum, { timedCount }) => sum + timedCount, 0);
  const lanes = app.scenes.reduce((sum, scene) => sum + scene.timedLanes.length, 0);
  const isInside = app.hasTimeline && app.scenes.every((scene) => scene.isInside);
  let text = [
    isInside
      ? `Timeline: ${formatCount(all)} regions inside kernels on ${lanes} warps.`
      : `Timeline: ${formatCount(gpu)} GPU events and ${formatCount(all - gpu)} host events on ${lanes} lanes.`,
    "W and S zoom, A and D move, brackets step from event to event, Enter shows its details.",
    isInside ? "The table warp_regions sums them up." : "The button “As a table” lists the same GPU events.",
  ].join(" ");
  if (!app.hasTimeline) text = "Counters over time. W and S zoom, A and D move; the table memory_timeline holds the same.";
  return { tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": text };
}

/** What a reader might miss, in words. */
function notes(app: App): HTMLElement[] {
  return app.scenes.flatMap((scene, number) => {
    const which = app.isDiff ? `${"AB"[number]}: ` : "";
    const { events, shorterThanNs } = scene.data.header.leftOut;
    const texts: string[] = [];
    if (!scene.hasGpu && !scene.isInside) texts.push(`${which}No GPU work in this trace: the lanes are CPU threads.`);
    if (events) {
      const what = `${formatCount(events)} host events shorter than ${formatNs(shorterThanNs)}`;
      texts.push(`${which}${what} are left out of this page to keep it small; every GPU event is here.`);
    }
    return texts.map((text) => h("p", { class: "empty", text }));
  });
}
