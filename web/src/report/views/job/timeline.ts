// The job's timeline: per rank a lane of computation and one of communication. This file puts its parts together.
import type { App, View } from "../../app";
import type { Changed } from "../../state";
import { choice, h, press, replace } from "../../../shared/dom";
import { formatCount, formatNs, formatPercent, formatPlural } from "../../../shared/format";
import { isDark } from "../../../shared/colours";
import { isSameRange } from "../../../shared/codecs";
import { Tip } from "../../../shared/tip";
import type { Job } from "../../data/job";
import { pageColours } from "../timeline/page-colours";
import { paintRuler, rulerHeight } from "../timeline/ruler";
import { sharpCanvas } from "../timeline/sharp";
import { CanvasSurface } from "../timeline/surface";
import { Viewport } from "../timeline/viewport";
import { callWords, showDetails } from "./details";
import { callAt, listenToInput, type Stage } from "./input";
import { heightOf, orderedRanks, placed, type PlacedRank } from "./lanes";
import { sideBar } from "../timeline/side";
import { legendKeys, type Key } from "./legend";
import { jobColours, paintMatch, paintRank, type JobColours } from "./paint";

const TALLEST = 0.6; // of the window
const LEAST_TALL = 220;
const ORDERS = [
  ["rank", "Rank", "By the number of the rank"],
  ["wait", "Wait", "Those that wait most for others first"],
] as const;

export function mountJobTimeline(host: HTMLElement, app: App): View {
  const { job } = app;
  if (!job?.ranks.length || !(job.data.start.length + job.data.computeStart.length)) {
    host.append(
      h("p", { class: "empty", text: "No rank has GPU work with a start and a duration, so there is nothing to draw over time." }),
    );
    return { update: () => undefined };
  }
  return new JobTimeline(host, app, job);
}

export class JobTimeline implements View, Stage {
  readonly viewport: Viewport;
  places: PlacedRank[] = [];
  hovered = -1;
  readonly canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  readonly rulerCanvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  readonly scroller: HTMLElement;
  readonly stage: HTMLElement;
  readonly ruler: HTMLElement;
  readonly details = h("aside", { class: "tl-details", attrs: { tabindex: "-1", "aria-label": "The chosen collective" } });
  private readonly tip = new Tip();
  private readonly corner = h("div", { class: "tl-corner quiet", title: "Length of the time in view" });
  private readonly inner = h("div", { class: "tl-inner" });
  private readonly status = h("p", { class: "tl-status quiet", attrs: { role: "status" } });
  private readonly keys = h("div", { class: "tl-legend" });
  private readonly filter: HTMLInputElement;
  private readonly order: HTMLElement;
  private readonly steps: ReturnType<Job["steps"]>;
  private colours: JobColours;
  private frame = 0;
  private height = LEAST_TALL;

  constructor(
    host: HTMLElement,
    readonly app: App,
    readonly job: Job,
  ) {
    const { store } = app;
    this.viewport = new Viewport(job.extent());
    this.steps = job.steps();
    this.colours = this.readColours();
    replace(this.keys, ...this.legend());
    this.order = choice("Order of the ranks", ORDERS, store.get("rankorder"), (rankorder) => store.set({ rankorder }));
    this.filter = h("input", {
      // The key / leads to it.
      id: "search",
      attrs: { type: "search", placeholder: "0, 4-7, host, slowest …", "aria-label": "Ranks to show", size: "18" },
      on: { input: () => store.set({ ranks: this.filter.value }) },
    });
    this.filter.value = store.get("ranks");
    this.scroller = h("div", { class: "tl-scroller", attrs: { tabindex: "-1" } }, this.inner);
    this.ruler = h("div", { class: "tl-ruler" }, this.corner, this.rulerCanvas);
    this.stage = h("div", { class: "tl-stage", attrs: this.attributes() }, this.canvas, this.scroller);
    this.scroller.style.top = "0";
    const main = h("div", { class: "tl-main" }, this.ruler, this.stage);
    const body = h("div", { class: "tl-body" }, main);
    body.append(sideBar(body, this.details), this.details);
    host.classList.add("tl", "job-tl");
    host.append(this.keys, this.bar(), this.status, body);
    listenToInput(this);
    this.scroller.addEventListener("scroll", () => this.request());
    new ResizeObserver(() => this.width() !== this.viewport.width && this.arrange()).observe(main);
    window.addEventListener("resize", () => this.arrange());
    this.followView();
    this.arrange();
    showDetails(this);
  }

  get scrolled(): number {
    return this.scroller.scrollTop;
  }
  get chosen(): number {
    const call = this.app.store.get("call") ?? -1;
    return call < this.job.data.start.length ? call : -1;
  }

  update(changed: Changed): void {
    const any = (...keys: Parameters<typeof changed.has>[0][]): boolean => keys.some((key) => changed.has(key));
    if (any("theme")) {
      this.colours = this.readColours();
      replace(this.keys, ...this.legend());
    }
    if (any("view")) this.followView();
    if (any("ranks") && this.filter.value !== this.app.store.get("ranks")) this.filter.value = this.app.store.get("ranks");
    if (any("call", "theme")) showDetails(this);
    if (any("ranks", "rankorder", "lanes", "call")) this.arrange();
    if (any("rank", "call")) this.reveal();
    this.request();
  }

  moved(): void {
    this.app.store.set({ view: this.viewport.range });
    this.request();
  }
  select(call: number): void {
    this.app.store.set({ call: call < 0 ? null : call });
  }
  hover(call: number, x: number, y: number): void {
    if (call >= 0) this.tip.show(...callWords(this.job, call), x, y);
    else this.tip.hide();
    if (call === this.hovered) return;
    this.hovered = call;
    this.request();
  }
  say(text: string, lines: string[], x: number, y: number): void {
    this.tip.show(text, lines, [], x, y);
  }
  /** Fits the chosen collective, then everything. */
  fit(): void {
    const before = this.viewport.range;
    if (this.chosen >= 0) {
      const calls = this.job.matched(this.chosen);
      this.viewport.frame(
        Math.min(...calls.map((call) => this.job.data.start[call])),
        Math.max(...calls.map((call) => this.job.end(call))),
      );
      if (!isSameRange(this.viewport.range, before)) return this.moved();
    }
    this.viewport.showEverything();
    this.moved();
  }

  private followView(): void {
    const view = this.app.store.get("view");
    if (isSameRange(view, this.viewport.range)) return;
    if (view) this.viewport.show(...view);
    else this.viewport.showEverything();
  }

  private readColours(): JobColours {
    return jobColours(pageColours(), this.app.palette, isDark());
  }
  private width(): number {
    return Math.floor(this.ruler.clientWidth - this.corner.offsetWidth);
  }
  private folded(): Set<number> {
    return new Set(
      this.app.store
        .get("lanes")
        .filter(({ open }) => !open)
        .map(({ key }) => Number(key)),
    );
  }

  /** Places the ranks that are shown and sizes everything to them. */
  private arrange(): void {
    const { store } = this.app;
    press(this.order, store.get("rankorder"));
    this.places = placed(orderedRanks([...this.job.ranks], store.get("ranks"), store.get("rankorder")), this.folded());
    this.viewport.width = Math.max(50, this.width());
    const tallest = Math.max(LEAST_TALL, Math.round(window.innerHeight * TALLEST));
    this.height = Math.max(40, Math.min(tallest, heightOf(this.places)));
    this.stage.style.height = `${this.height}px`;
    this.inner.style.height = `${heightOf(this.places)}px`;
    const focused = (document.activeElement as HTMLElement | null)?.dataset["lane"];
    replace(this.inner, ...this.places.map((place) => this.label(place)));
    if (focused) this.inner.querySelector<HTMLElement>(`[data-lane="${focused}"]`)?.focus();
    this.status.textContent = this.statusText();
    this.request();
  }

  private statusText(): string {
    const { ranks, data, hasAll } = this.job;
    const shown = this.places.length;
    if (!shown) return `No rank on this page matches “${this.app.store.get("ranks")}”.`;
    const drawn = hasAll
      ? ""
      : ` This page holds the timelines of ${formatCount(ranks.length)} of ${formatPlural(data.ranks, "rank")}; the heat map and the tables have all.`;
    return `${shown < ranks.length ? `${shown} of ${formatPlural(ranks.length, "rank")}.` : `${formatPlural(shown, "rank")}.`}${drawn}`;
  }

  private label({ rank, top, height, open }: PlacedRank): HTMLElement {
    const toggle = h(
      "button",
      {
        title: `${rank.label}\n${formatPlural(rank.calls, "communication kernel")}, waits of ${formatNs(rank.waitNs)}\nClick to ${open ? "fold" : "open"}`,
        attrs: { "aria-expanded": String(open), "data-lane": String(rank.rank) },
        on: { click: () => this.toggle(rank.rank, open) },
      },
      h("span", { class: "tl-twist", text: open ? "▾" : "▸", attrs: { "aria-hidden": "true" } }),
      h("span", { class: "tl-name", text: rank.label }),
    );
    const [from, to] = this.viewport.extent;
    const share = h("span", {
      class: "tl-share",
      text: `wait ${formatPercent((100 * rank.waitNs) / (to - from))}`,
      title: "waits for other ranks, as a share of the whole time",
    });
    const parts = open ? h("div", { class: "job-parts quiet" }, h("span", { text: "compute" }), h("span", { text: "communicate" })) : null;
    const marked = this.app.store.get("rank") === rank.rank ? " job-marked" : "";
    const label = h(
      "div",
      { class: `tl-label${marked}` },
      h("div", { class: "tl-stuck" }, toggle, open ? null : share),
      parts && h("div", { class: "job-second" }, share),
    );
    label.style.top = `${top}px`;
    label.style.height = `${height}px`;
    return label;
  }

  private toggle(rank: number, open: boolean): void {
    const others = this.app.store.get("lanes").filter(({ key }) => key !== String(rank));
    this.app.store.set({ lanes: open ? [...others, { key: String(rank), open: false }] : others });
  }
  private foldAll(open: boolean): void {
    this.app.store.set({ lanes: open ? [] : this.job.ranks.map(({ rank }) => ({ key: String(rank), open: false })) });
  }

  /** Scrolls to the rank that was led to, or to the chosen call's. */
  private reveal(): void {
    const wanted = this.chosen >= 0 ? this.job.rankOfCall(this.chosen).rank : this.app.store.get("rank");
    const place = this.places.find(({ rank }) => rank.rank === wanted);
    if (!place) return;
    if (place.top < this.scrolled || place.top + place.height > this.scrolled + this.height)
      this.scroller.scrollTop = place.top - this.height / 3;
  }

  private legend(): HTMLElement[] {
    const { compute, wait, transfer, unknown } = this.colours;
    const keys: Key[] = [
      [compute, "computation (gaps below 20 µs closed)"],
      [wait, "communication: waiting for the last rank"],
      [transfer, "communication: transfer"],
    ];
    if (this.job.data.match.some((match) => match < 0)) keys.push([unknown, "not matched: its wait is not known"]);
    return legendKeys(keys);
  }

  private bar(): HTMLElement {
    const button = (text: string, title: string, click: () => void, label = ""): HTMLElement =>
      h("button", { text, title, attrs: label ? { "aria-label": label } : {}, on: { click } });
    const zoom = (factor: number) => (): void => {
      this.viewport.zoom(factor);
      this.moved();
    };
    return h(
      "div",
      { class: "tl-bar" },
      h("label", { class: "tl-group" }, h("span", { class: "quiet", text: "Ranks" }), this.filter),
      h("span", { class: "tl-group" }, h("span", { class: "quiet", text: "Order" }), this.order),
      h(
        "span",
        { class: "tl-group" },
        button("Fold all", "One thin lane per rank", () => this.foldAll(false)),
        button("Open all", "Two lanes per rank", () => this.foldAll(true)),
      ),
      h(
        "span",
        { class: "tl-group" },
        button("−", "Zoom out (S or −)", zoom(1.6), "Zoom out"),
        button("+", "Zoom in (W or +)", zoom(1 / 1.6), "Zoom in"),
        button("Fit", "Fit the collective, then everything (F)", () => this.fit()),
        button("As a table", "The collectives as a table", () => this.app.go({ to: "table", table: "collectives" })),
      ),
    );
  }

  private attributes(): Record<string, string> {
    const { ranks, data } = this.job;
    const text = [
      `Timeline of ${formatPlural(ranks.length, "rank")} with ${formatPlural(data.start.length, "communication kernel")}.`,
      "W and S zoom, A and D move, brackets step from call to call, braces from rank to rank, Enter shows the details.",
      "The button “As a table” lists the same collectives.",
    ].join(" ");
    return { tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": text };
  }

  request(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }
  private draw(): void {
    const began = performance.now();
    const { viewport, colours, job } = this;
    const surface = new CanvasSurface(sharpCanvas(this.canvas, viewport.width, this.height));
    surface.rect(0, 0, viewport.width, this.height, colours.page.background);
    const inSight = this.places.filter(({ top, height }) => top + height > this.scrolled && top < this.scrolled + this.height);
    for (const place of inSight) paintRank(surface, job, place, viewport, colours, this.scrolled);
    const marked = this.hovered >= 0 ? this.hovered : this.chosen;
    if (marked >= 0) paintMatch(surface, job, job.matched(marked), this.places, viewport, colours, this.scrolled);
    const ruler = { viewport, page: colours.page, steps: [this.steps], origins: [0], windows: [], noteTimes: [], app: { scenes: [] } };
    paintRuler(new CanvasSurface(sharpCanvas(this.rulerCanvas, viewport.width, rulerHeight(ruler))), ruler);
    const text = formatNs(viewport.span);
    if (this.corner.textContent !== text) this.corner.textContent = text;
    document.dispatchEvent(new CustomEvent("warplens:frame", { detail: performance.now() - began }));
  }

  /** The call under a point of the picture, -1 for none. */
  at(x: number, y: number): number {
    return callAt(this, x, y);
  }
}
