// The whole trace in one strip: how busy the GPU is per pixel, with the view as a window to drag or resize.
import { h } from "../../../shared/dom";
import { union } from "../../data/intervals";
import type { Scene } from "../../data/scene";
import { Cover } from "./cover";
import { runsOfPixels, type Counter } from "./counters";
import type { Lane } from "./lanes";
import type { Model } from "./model";
import { sharpCanvas } from "./sharp";

const HEIGHT = 36;
const MOST_WARPS = 64; // whose mean stands for all
const NARROWEST = 6; // pixels of the window that can still be taken hold of

type Part = "from" | "to" | "window" | "outside";

export class Minimap {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  private readonly brush = h("div", { class: "tl-brush" }, h("i", { class: "tl-left" }), h("i", { class: "tl-right" }));
  /** Per scene what its strip shows: the GPU's work, or the mean of some warps. */
  private readonly covers: Cover[][];
  private width = 1;

  constructor(private readonly model: Model) {
    this.covers = model.app.scenes.map((scene) => {
      const warps = scene.isInside ? model.lanes.filter((lane) => lane.scene === scene).slice(0, MOST_WARPS) : [];
      return scene.isInside ? warps.map(({ cover }) => cover) : [coverOf(scene, model.lanes)];
    });
    const title = "The whole trace: drag the window to move the view, its edges to resize it";
    this.element = h("div", { class: "tl-mini", title }, this.canvas, this.brush);
    this.element.style.height = `${HEIGHT}px`;
    this.listen();
  }

  /** The strip itself; changes with size and theme only. */
  paint(width: number): void {
    this.width = width;
    const context = sharpCanvas(this.canvas, width, HEIGHT);
    const { page, viewport, origins } = this.model;
    const [first, last] = viewport.extent;
    const ns = (last - first) / width;
    context.fillStyle = page.panel;
    context.fillRect(0, 0, width, HEIGHT);
    context.fillStyle = page.quiet;
    const height = HEIGHT / this.covers.length;
    this.covers.forEach((covers, scene) => {
      for (let x = 0; x < width; x++) {
        const from = first + origins[scene] + x * ns;
        const busy = covers.reduce((sum, cover) => sum + cover.busy(from, from + ns), 0) / covers.length;
        const bar = (busy / ns) * (height - 3);
        if (bar > 0) context.fillRect(x, (scene + 1) * height - Math.max(1, bar), 1, Math.max(1, bar));
      }
    });
    if (!this.covers.length && this.model.counters.length) this.paintCounter(context, this.model.counters[0], first, ns);
    this.showView();
  }

  /** Without events: the first counter. */
  private paintCounter(context: CanvasRenderingContext2D, counter: Counter, first: number, ns: number): void {
    for (const [left, right, row] of runsOfPixels(counter, first, ns, this.width)) {
      const tall = (counter.total[row] / counter.most) * (HEIGHT - 3);
      context.fillRect(left, HEIGHT - tall, right - left, tall);
    }
  }

  showView(): void {
    const { viewport } = this.model;
    const [left, right] = [this.x(viewport.from), this.x(viewport.to)];
    const width = Math.max(NARROWEST, right - left);
    this.brush.style.transform = `translateX(${(left + right - width) / 2}px)`;
    this.brush.style.width = `${width}px`;
  }

  private x(time: number): number {
    const [first, last] = this.model.viewport.extent;
    return Math.min(this.width, Math.max(0, ((time - first) / (last - first)) * this.width));
  }

  private listen(): void {
    let grabbed: { part: Part; x: number; from: number; to: number } | null = null;
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const { viewport } = this.model;
      const part = this.partOf(event.target as HTMLElement);
      if (part === "outside") viewport.pan(viewport.x(this.timeAt(event)) - viewport.width / 2);
      grabbed = { part: part === "outside" ? "window" : part, x: event.clientX, from: viewport.from, to: viewport.to };
      this.element.setPointerCapture(event.pointerId);
      this.model.moved();
    });
    this.element.addEventListener("pointermove", (event) => {
      if (!grabbed) return;
      const [first, last] = this.model.viewport.extent;
      const shift = ((event.clientX - grabbed.x) / this.width) * (last - first);
      const from = grabbed.from + (grabbed.part === "to" ? 0 : shift);
      const to = grabbed.to + (grabbed.part === "from" ? 0 : shift);
      this.model.viewport.show(Math.min(from, to), Math.max(from, to));
      this.model.moved();
    });
    const release = (): void => void (grabbed = null);
    this.element.addEventListener("pointerup", release);
    this.element.addEventListener("pointercancel", release);
  }

  private partOf(target: HTMLElement): Part {
    if (target.className === "tl-left") return "from";
    if (target.className === "tl-right") return "to";
    return target === this.brush ? "window" : "outside";
  }
  private timeAt(event: PointerEvent): number {
    const [first, last] = this.model.viewport.extent;
    return first + ((event.clientX - this.canvas.getBoundingClientRect().left) / this.width) * (last - first);
  }
}

/** Work of the GPU, or of the host's ops where there is no GPU. */
function coverOf(scene: Scene, lanes: Lane[]): Cover {
  const streams = lanes.filter((lane) => lane.scene === scene && lane.isGpu);
  if (streams.length === 1) return streams[0].cover;
  const { gpuRow, start, duration, label } = scene.data;
  if (scene.hasGpu) return new Cover(union(gpuRow, start, duration));
  const rows = Array.from(label.keys());
  const ops = rows.filter((row) => scene.kind(row) === "op");
  return new Cover(union(ops.length ? ops : rows, start, duration));
}
