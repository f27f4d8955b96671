// Collectives by size and speed: bytes against bus bandwidth, both logarithmic.
import type { App, View } from "../../app";
import { h, replace } from "../../../shared/dom";
import { isDark, lightened } from "../../../shared/colours";
import { formatBytes, formatCount, formatNs, formatPlural, significant } from "../../../shared/format";
import { Tip, type Fact } from "../../../shared/tip";
import type { Table } from "../../data/table";
import { logScale, powers, tickText, type LogScale } from "../roofline/scale";
import { pageColours } from "../timeline/page-colours";
import { sharpCanvas } from "../timeline/sharp";
import { CanvasSurface } from "../timeline/surface";
import { textWidth } from "../timeline/text";

const HEIGHT = 340;
const MARGIN = { left: 56, right: 18, top: 10, bottom: 42 };
const SIZE = 3.5;
const REACH = 14;
// The colours of Okabe and Ito, which every kind of colour vision tells apart; shapes help.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#707070"];
const SHAPES = ["circle", "square", "triangle", "diamond", "cross"] as const;
type Shape = (typeof SHAPES)[number];

export interface CollectivePoint {
  /** Row of the table. */
  row: number;
  kind: string;
  bytes: number;
  busbw: number;
}

/** The collectives whose size and speed are known, by size, and how many are not. */
export function collectivePoints(table: Pick<Table, "rows" | "number" | "text">): { points: CollectivePoint[]; unknown: number } {
  const points: CollectivePoint[] = [];
  for (let row = 0; row < table.rows; row++) {
    const [bytes, busbw] = [table.number("message_bytes", row), table.number("busbw_gbps", row)];
    if (bytes > 0 && busbw > 0) points.push({ row, kind: table.text("kind", row), bytes, busbw });
  }
  points.sort((a, b) => a.bytes - b.bytes || a.busbw - b.busbw);
  return { points, unknown: table.rows - points.length };
}

/** Round sizes for an axis: 1, 4, 16 … of B, KiB, MiB. */
export function byteTicks(from: number, to: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.ceil(Math.log2(from)); power <= Math.log2(to); power++) ticks.push(2 ** power);
  const every = [1, 2, 4, 5, 10].find((step) => ticks.length / step <= 12) ?? 10;
  return ticks.filter((tick) => Math.log2(tick) % every === 0);
}

export function mountScatter(host: HTMLElement, app: App): View {
  const { points, unknown } = collectivePoints(app.wholeTable("collectives"));
  if (!points.length) {
    const why = unknown
      ? `The traces do not record the sizes of ${unknown === 1 ? "the collective" : `any of the ${formatPlural(unknown, "collective")}`}: without them there is no bandwidth.`
      : "No collective of two ranks could be matched.";
    host.append(h("p", { class: "empty", text: why }));
    return { update: () => undefined };
  }
  return new Scatter(host, app, points, unknown);
}

class Scatter implements View {
  private readonly canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  private readonly stage: HTMLElement;
  private readonly legend = h("div", { class: "rl-legend", attrs: { role: "group", "aria-label": "Kinds of collectives" } });
  private readonly spoken = h("p", { class: "offscreen", attrs: { "aria-live": "polite" } });
  private readonly tip = new Tip();
  private readonly kinds: string[];
  private readonly hidden = new Set<string>();
  private readonly table: Table;
  private shown: CollectivePoint[] = [];
  private x!: LogScale;
  private y!: LogScale;
  private width = 0;
  private marked = -1;

  constructor(
    host: HTMLElement,
    private readonly app: App,
    private readonly points: CollectivePoint[],
    unknown: number,
  ) {
    this.table = app.wholeTable("collectives");
    const counts = new Map<string, number>();
    for (const { kind } of points) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    this.kinds = [...counts].sort(([, a], [, b]) => b - a).map(([kind]) => kind);
    const label = `Chart of ${formatPlural(points.length, "collective")} by bytes and bus bandwidth. Arrow keys go from one to the next by size, Enter shows it on the timeline.`;
    this.stage = h("div", { class: "job-scatter", attrs: { tabindex: "0", role: "application", "aria-label": label } }, this.canvas);
    const ways = h("button", { text: "As a table", on: { click: () => app.go({ to: "table", table: "collective_kinds" }) } });
    const note = unknown ? `${formatPlural(unknown, "collective")} without a known size or transfer: only in the table.` : "";
    host.append(h("div", { class: "job-controls" }, this.legend, ways), this.stage, h("p", { class: "quiet", text: note }), this.spoken);
    this.listen();
    new ResizeObserver(() => this.stage.clientWidth !== this.width && this.draw()).observe(this.stage);
    this.show();
  }

  update(changed: ReadonlySet<string>): void {
    if (changed.has("theme")) this.show();
    else if (changed.has("call")) this.draw();
  }

  private colour(kind: string): string {
    const colour = COLOURS[this.kinds.indexOf(kind) % COLOURS.length];
    return isDark() ? lightened(colour) : colour;
  }
  private shape(kind: string): Shape {
    return SHAPES[this.kinds.indexOf(kind) % SHAPES.length];
  }

  private show(): void {
    this.shown = this.points.filter(({ kind }) => !this.hidden.has(kind));
    this.marked = -1;
    replace(this.legend, ...this.kinds.map((kind) => this.key(kind)));
    this.draw();
  }

  private key(kind: string): HTMLElement {
    const count = this.points.filter((point) => point.kind === kind).length;
    const canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
    const context = sharpCanvas(canvas, 14, 14);
    context.fillStyle = pageColours().background;
    context.fillRect(0, 0, 14, 14);
    drawMark(context, 7, 7, this.shape(kind), this.colour(kind), 4.5);
    return h(
      "button",
      {
        title: `${formatPlural(count, "call")}; click to ${this.hidden.has(kind) ? "show" : "hide"}`,
        attrs: { "aria-pressed": String(!this.hidden.has(kind)) },
        on: { click: () => this.toggle(kind) },
      },
      canvas,
      kind,
    );
  }
  private toggle(kind: string): void {
    if (!this.hidden.delete(kind)) this.hidden.add(kind);
    this.show();
    [...this.legend.querySelectorAll("button")].find((button) => button.textContent === kind)?.focus();
  }

  private draw(): void {
    this.width = this.stage.clientWidth;
    if (!this.width) return;
    const span = (values: number[]): [number, number] => {
      const [least, most] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
      return [least / 1.6, most * 1.6];
    };
    this.x = logScale(span(this.points.map(({ bytes }) => bytes)), [MARGIN.left, this.width - MARGIN.right]);
    this.y = logScale(span(this.points.map(({ busbw }) => busbw)), [HEIGHT - MARGIN.bottom, MARGIN.top]);
    const context = sharpCanvas(this.canvas, this.width, HEIGHT);
    this.paintAxes(new CanvasSurface(context));
    context.globalAlpha = 0.75;
    for (const kind of this.kinds) {
      const [shape, colour] = [this.shape(kind), this.colour(kind)];
      for (const point of this.shown) if (point.kind === kind) drawMark(context, this.x(point.bytes), this.y(point.busbw), shape, colour);
    }
    context.globalAlpha = 1;
    this.paintChosen(context);
  }

  private paintAxes(surface: CanvasSurface): void {
    const page = pageColours();
    const [left, right, top, bottom] = [MARGIN.left, this.width - MARGIN.right, MARGIN.top, HEIGHT - MARGIN.bottom];
    surface.rect(0, 0, this.width, HEIGHT, page.background);
    let free = left;
    for (const tick of byteTicks(this.x.from, this.x.to)) {
      const text = formatBytes(tick);
      const x = this.x(tick) - textWidth(text) / 2;
      surface.rect(this.x(tick), top, 1, bottom - top, page.line);
      if (x < free) continue;
      surface.text(x, bottom + 11, text, page.quiet);
      free = x + textWidth(text) + 10;
    }
    for (const tick of powers(this.y)) {
      surface.rect(left, this.y(tick), right - left, 1, page.line);
      surface.text(left - 6 - textWidth(tickText(tick)), this.y(tick), tickText(tick), page.quiet);
    }
    surface.text((left + right) / 2 - 30, bottom + 30, "message size", page.quiet);
    surface.text(2, top + 4, "GB/s", page.quiet);
  }

  private paintChosen(context: CanvasRenderingContext2D): void {
    const { job, store } = this.app;
    const call = store.get("call");
    const match = job && call !== null && call < job.data.match.length ? job.data.match[call] : -1;
    const chosen = match < 0 ? undefined : this.shown.find(({ row }) => this.table.number("collective", row) === match);
    for (const point of [this.shown[this.marked], chosen]) {
      if (!point) continue;
      context.strokeStyle = pageColours().path;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(this.x(point.bytes), this.y(point.busbw), 8, 0, 7);
      context.stroke();
    }
  }

  private listen(): void {
    const { stage } = this;
    stage.addEventListener("pointermove", (event) => {
      const at = this.near(event);
      stage.style.cursor = at >= 0 ? "pointer" : "";
      if (at >= 0) this.tip.show(...this.wordsOf(this.shown[at]), event.clientX, event.clientY);
      else this.tip.hide();
    });
    stage.addEventListener("pointerleave", () => this.tip.hide());
    stage.addEventListener("blur", () => this.tip.hide());
    stage.addEventListener("click", (event) => {
      const at = this.near(event);
      if (at >= 0) this.open(this.shown[at]);
    });
    stage.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** The nearest point within reach of the pointer, -1 for none. */
  private near(event: MouseEvent): number {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    let [best, bestAway] = [-1, REACH];
    this.shown.forEach(({ bytes, busbw }, at) => {
      const away = Math.hypot(this.x(bytes) - x, this.y(busbw) - y);
      if (away < bestAway) [best, bestAway] = [at, away];
    });
    return best;
  }

  private wordsOf({ row, kind, bytes, busbw }: CollectivePoint): [string, string[], Fact[]] {
    const us = (name: string): string => formatNs(this.table.number(name, row) * 1e3);
    const facts: Fact[] = [
      ["bus bandwidth", `${significant(busbw)} GB/s`],
      ["transfer", us("transfer_us")],
      ["longest wait", us("wait_max_us")],
      ["ranks", formatCount(this.table.number("members", row))],
      ["last rank", String(this.table.number("last_rank", row))],
      ["step", String(this.table.number("step", row))],
      ["between", this.table.text("between", row)],
    ];
    return [`${kind}, ${formatBytes(bytes)}`, [], facts.filter(([, value]) => value)];
  }

  private open({ row }: CollectivePoint): void {
    const match = this.table.number("collective", row);
    if ((this.app.job?.callOf(match) ?? -1) >= 0) this.app.go({ to: "collective", match });
    else this.app.go({ to: "table", table: "collectives", row });
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.shown.length - 1;
    const moves: Record<string, number> = {
      ArrowRight: Math.min(last, this.marked + 1),
      ArrowLeft: Math.max(0, this.marked - 1),
      Home: 0,
      End: last,
    };
    const to = moves[event.key];
    if (event.key === "Enter" && this.shown[this.marked]) this.open(this.shown[this.marked]);
    else if (to !== undefined && last >= 0) this.mark(to);
    else return;
    event.preventDefault();
  }

  private mark(at: number): void {
    this.marked = at;
    this.draw();
    const point = this.shown[at];
    const { left, top } = this.canvas.getBoundingClientRect();
    const words = this.wordsOf(point);
    this.tip.show(...words, left + this.x(point.bytes), top + this.y(point.busbw));
    this.spoken.textContent = `${words[0]}: ${words[2].map((fact) => fact.join(" ")).join(", ")}`;
  }
}

function drawMark(context: CanvasRenderingContext2D, x: number, y: number, shape: Shape, colour: string, size = SIZE): void {
  context.fillStyle = colour;
  context.beginPath();
  if (shape === "circle") context.arc(x, y, size, 0, 7);
  else if (shape === "square") context.rect(x - size, y - size, 2 * size, 2 * size);
  else if (shape === "cross") {
    context.rect(x - size - 0.5, y - size / 3, 2 * size + 1, size / 1.5);
    context.rect(x - size / 3, y - size - 0.5, size / 1.5, 2 * size + 1);
  } else {
    const corners = shape === "triangle" ? [[0, -1.3], [1.25, 1], [-1.25, 1]] : [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]]; // prettier-ignore
    corners.forEach(([right, down], at) =>
      at ? context.lineTo(x + right * size, y + down * size) : context.moveTo(x + right * size, y + down * size),
    );
  }
  context.fill();
}
