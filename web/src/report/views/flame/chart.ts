// The canvas: draws, and turns pointer and keys into frames that are hovered, chosen, zoomed into.
import type { Palette } from "../../palette";
import { h } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import { boxOf, draw, frameUnder, NARROWEST_PX, ROW_PX, visit, type Bar, type Scope } from "./draw";
import { fullName, type Look } from "./facts";
import { MOVES } from "./moves";
import { Tip } from "../../../shared/tip";
import { bounded, isWhole, type Zoom } from "./zoom";

export interface ChartEvents {
  choose(frame: number): void;
  zoom(frame: number): void;
  stretch(span: [number, number]): void;
  zoomOut(): void;
  open(frame: number): void;
}

export interface Shown {
  look: Look;
  zoom: Zoom;
  cursor: number;
  matches: Uint8Array | null;
}

const DRAG_FROM_PX = 4;
const STEP = 2;
const INTO_BAR = 8;

export class Chart {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly space: HTMLElement;
  private readonly tip = new Tip();
  private readonly hoverBox = h("div", { class: "flame-box", attrs: { hidden: "" } });
  private readonly cursorBox = h("div", { class: "flame-box flame-cursor", attrs: { hidden: "" } });
  private readonly dragBox = h("div", { class: "flame-drag", attrs: { hidden: "" } });
  private shown: Shown | null = null;
  private bars: Bar[] = [];
  private pending = 0;
  private pressedAt = -1;
  private dragged: [number, number] | null = null;
  private wasDragged = false;

  constructor(
    private readonly palette: Palette,
    private readonly events: ChartEvents,
  ) {
    this.canvas = h("canvas", {
      class: "flame-canvas",
      attrs: { tabindex: "0", role: "application" },
      on: {
        pointerdown: (event) => this.press(event),
        pointermove: (event) => this.move(event),
        pointerup: () => this.release(),
        click: (event) => this.click(event),
        pointerleave: () => this.leave(),
        dblclick: () => this.shown && this.shown.cursor >= 0 && this.events.open(this.shown.cursor),
        keydown: (event) => this.key(event),
      },
    });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.space = h("div", { class: "flame-space" }, this.canvas, this.hoverBox, this.cursorBox, this.dragBox);
    this.element = h("div", { class: "flame-scroll", on: { scroll: () => this.redraw() } }, this.space);
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  show(shown: Shown, label: string): void {
    const moved = shown.look !== this.shown?.look || shown.zoom.root !== this.shown.zoom.root;
    this.shown = shown;
    this.leave();
    this.canvas.setAttribute("aria-label", label);
    if (moved) this.element.scrollTop = 0;
    this.fit();
  }

  redraw(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.drawNow());
  }

  /** As high as the frames that are wide enough to be seen. */
  private fit(): void {
    const scope = this.scope();
    if (!this.shown || !scope) return;
    let rows = 0;
    const deeper = (row: number): void => void (rows = Math.max(rows, row + 1));
    visit(
      this.shown.look.frames,
      scope,
      [0, Infinity],
      (_, _x, _w, row) => deeper(row),
      ({ row }) => deeper(row),
    );
    this.space.style.height = `${rows * ROW_PX}px`;
    this.drawNow();
  }

  private scope(): Scope | null {
    const { clientWidth: width, clientHeight: height, scrollTop: top } = this.element;
    return this.shown && width ? { ...this.shown.zoom, width, height, top } : null;
  }

  private drawNow(): void {
    const scope = this.scope();
    if (!this.shown || !scope) return;
    const ratio = devicePixelRatio || 1;
    const size = [Math.round(scope.width * ratio), Math.round(scope.height * ratio)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) {
      [this.canvas.width, this.canvas.height] = size;
      this.canvas.style.height = `${scope.height}px`;
    }
    const context = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.bars = draw(context, this.shown.look, this.palette, scope, this.shown.matches);
    this.moveBox(this.cursorBox, this.shown.cursor);
  }

  /** Puts a box around a frame: nothing has to be drawn again for it. */
  private moveBox(box: HTMLElement, frame: number): void {
    const scope = this.scope();
    const bounds = this.shown && scope && frame >= 0 ? boxOf(this.shown.look.frames, scope, frame) : null;
    box.hidden = !bounds;
    for (const [side, px] of Object.entries(bounds ?? {})) box.style.setProperty(side, `${px}px`);
  }

  private barAt({ offsetX, offsetY }: MouseEvent): Bar | undefined {
    const row = Math.floor((offsetY + this.element.scrollTop) / ROW_PX);
    return this.bars.find((bar) => bar.row === row && offsetX >= bar.from && offsetX <= Math.max(bar.to, bar.from + 1));
  }
  private frameAt(event: MouseEvent): number {
    const scope = this.scope();
    return this.shown && scope ? frameUnder(this.shown.look.frames, scope, event.offsetX, event.offsetY) : -1;
  }

  private press(event: PointerEvent): void {
    if (event.button === 0) this.pressedAt = event.offsetX;
  }
  private move(event: PointerEvent): void {
    if (this.pressedAt >= 0 && event.buttons & 1 && (this.dragged || Math.abs(event.offsetX - this.pressedAt) > DRAG_FROM_PX)) {
      if (!this.dragged) this.canvas.setPointerCapture(event.pointerId);
      this.dragged = [Math.min(this.pressedAt, event.offsetX), Math.max(this.pressedAt, event.offsetX)];
      this.leave();
      this.dragBox.hidden = false;
      this.dragBox.style.left = `${this.dragged[0]}px`;
      this.dragBox.style.width = `${this.dragged[1] - this.dragged[0]}px`;
    } else this.hover(event);
  }
  private release(): void {
    const { dragged } = this;
    this.pressedAt = -1;
    this.dragged = null;
    this.dragBox.hidden = true;
    this.wasDragged = dragged !== null;
    if (dragged) this.widen(dragged[0], dragged[1]);
  }

  private hover(event: MouseEvent): void {
    if (!this.shown) return;
    const bar = this.barAt(event);
    const frame = bar ? -1 : this.frameAt(event);
    this.moveBox(this.hoverBox, frame);
    const { look } = this.shown;
    if (bar)
      this.tip.show(`${formatCount(bar.frames)} frames, each too narrow to draw; click to zoom in`, [], [], event.clientX, event.clientY);
    else if (frame >= 0) this.tip.show(fullName(look, frame), [], look.facts(frame), event.clientX, event.clientY);
    else this.tip.hide();
  }
  private leave(): void {
    this.tip.hide();
    this.hoverBox.hidden = true;
  }

  private click(event: MouseEvent): void {
    // A drag ends in a click too; and of a double click the second would hit another frame, the first has zoomed.
    if (this.wasDragged || event.detail > 1) return;
    const bar = this.barAt(event);
    if (bar && bar.parent !== this.shown?.zoom.root) return this.events.zoom(bar.parent);
    if (bar) return this.around(event.offsetX, INTO_BAR);
    const frame = this.frameAt(event);
    if (frame >= 0) this.events.zoom(frame);
  }

  /** Shows what is between two positions, in px, over the whole width. */
  private widen(from: number, to: number): void {
    const scope = this.scope();
    if (!scope) return;
    const [start, end] = scope.span;
    const at = (px: number): number => start + (px / scope.width) * (end - start);
    this.events.stretch(bounded(at(from), at(to)));
  }
  /** Widens what is around a place, which stays where it is. */
  private around(px: number, times: number): void {
    const width = this.element.clientWidth;
    this.widen(px - px / times, px + (width - px) / times);
  }
  private wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) this.around(event.offsetX, event.deltaY < 0 ? STEP : 1 / STEP);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = event.deltaX || event.deltaY;
      this.widen(by, this.element.clientWidth + by);
    } else return;
    event.preventDefault();
  }

  private key(event: KeyboardEvent): void {
    if (!this.shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const { look, zoom, cursor } = this.shown;
    const at = cursor >= 0 ? cursor : zoom.root;
    if (event.key === "Enter") this.events.zoom(at);
    else if (event.key === "Backspace") this.events.zoomOut();
    else if (event.key === "+" || event.key === "=") this.around(this.middleOf(at), STEP);
    else if (event.key === "-") this.around(this.middleOf(at), 1 / STEP);
    else if (event.key in MOVES) this.moveTo(MOVES[event.key](look.frames, at, zoom.root, this.narrowest()));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The middle of the frame where it is in sight, else of the picture. */
  private middleOf(frame: number): number {
    const { look, zoom } = this.shown as Shown;
    const { x, width } = look.frames;
    const share = (x[frame] + width[frame] / 2 - x[zoom.root]) / width[zoom.root];
    const fraction = (share - zoom.span[0]) / (zoom.span[1] - zoom.span[0]);
    return (fraction > 0 && fraction < 1 ? fraction : 0.5) * this.element.clientWidth;
  }
  /** The least width that is drawn, in the unit of widths. */
  private narrowest(): number {
    const { look, zoom } = this.shown as Shown;
    const whole = look.frames.width[zoom.root] * (zoom.span[1] - zoom.span[0]);
    return (whole * NARROWEST_PX) / Math.max(1, this.element.clientWidth);
  }

  private moveTo(frame: number): void {
    const shown = this.shown as Shown;
    const { depth } = shown.look.frames;
    const y = (depth[frame] - depth[shown.zoom.root]) * ROW_PX;
    const { scrollTop, clientHeight } = this.element;
    if (y < scrollTop) this.element.scrollTop = y;
    else if (y + ROW_PX > scrollTop + clientHeight) this.element.scrollTop = y + ROW_PX - clientHeight;
    shown.cursor = frame;
    this.keepInSight(frame);
    this.events.choose(frame);
    this.moveBox(this.cursorBox, frame);
  }
  /** Moves the stretch along where the frame is outside it. */
  private keepInSight(frame: number): void {
    const { zoom, look } = this.shown as Shown;
    if (isWhole(zoom.span)) return;
    const { x, width } = look.frames;
    const from = (x[frame] - x[zoom.root]) / width[zoom.root];
    const to = from + width[frame] / width[zoom.root];
    const [start, end] = zoom.span;
    if (from < end && to > start) return;
    const half = (end - start) / 2;
    this.events.stretch(bounded((from + to) / 2 - half, (from + to) / 2 + half));
  }
}
