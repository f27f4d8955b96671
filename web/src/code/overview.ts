// The strip beside a text: all of it in little, with the places of the line that is chosen or pointed at.
import { cssColour, isDark } from "../shared/colours";
import { h } from "../shared/dom";
import type { App } from "./app";
import type { Listing } from "./listing";

const WIDTH = 14;
const EDGE = 3; // left of it, what was found
const LEAST_PX = 2;
const SHORT_PX = 3; // of a row: a short text is not drawn out over the whole strip
const PALE = 0.4;

export class Overview {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { attrs: { "aria-hidden": "true" } });
  private readonly window = h("div", { class: "window" });
  /** All lines in their colours: the same until the text, the height or the theme changes. */
  private readonly ground = document.createElement("canvas");
  private groundIs = "";
  private groundOf: Listing | null = null;
  private height = 0;
  private rows = 0;

  constructor(private readonly go: (row: number) => void) {
    this.element = h("div", { class: "overview", title: "The whole text; click to go there" }, this.canvas, this.window);
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      this.to(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (event.buttons) this.to(event);
    });
  }

  /** After a change of the size. */
  measure(): void {
    this.height = this.element.clientHeight;
  }

  draw(listing: Listing | null, app: App, hits: number[]): void {
    this.rows = listing?.rows.length ?? 0;
    if (!this.height || !listing || !this.rows) return;
    this.drawGround(listing, app);
    this.canvas.width = this.ground.width;
    this.canvas.height = this.ground.height;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.globalAlpha = app.active >= 0 ? PALE : 1;
    context.drawImage(this.ground, 0, 0);
    context.globalAlpha = 1;
    context.scale(scale(), scale());
    if (app.active >= 0)
      this.drawRows(
        context,
        listing.rowsOf(app.active),
        EDGE,
        WIDTH - EDGE,
        `hsl(${app.hue(app.active) ?? 210} 75% ${isDark() ? "62%" : "42%"})`,
      );
    this.drawRows(context, hits, 0, EDGE, cssColour("--warn"));
  }

  /** Marks the part that is in sight, given in rows. */
  place(first: number, count: number): void {
    const step = this.used / Math.max(1, this.rows);
    this.window.style.transform = `translateY(${first * step}px)`;
    this.window.style.height = `${Math.max(4, Math.min(count, this.rows) * step)}px`;
  }

  private drawRows(context: CanvasRenderingContext2D, rows: ArrayLike<number>, x: number, width: number, colour: string): void {
    const step = this.used / this.rows;
    const size = Math.max(LEAST_PX, step);
    context.fillStyle = colour;
    let last = -1;
    for (let at = 0; at < rows.length; at++) {
      const y = Math.floor(rows[at] * step);
      if (y === last) continue; // of a long text many rows meet in one pixel
      context.fillRect(x, y, width, size);
      last = y;
    }
  }

  private drawGround(listing: Listing, app: App): void {
    const key = `${this.height} ${isDark()} ${scale()}`;
    if (key === this.groundIs && listing === this.groundOf) return;
    this.groundIs = key;
    this.groundOf = listing;
    this.ground.width = WIDTH * scale();
    this.ground.height = this.height * scale();
    const context = this.ground.getContext("2d");
    if (!context) return;
    context.scale(scale(), scale());
    for (let y = 0; y < this.used; y++) {
      const own = listing.pythonOf(Math.floor((y / this.used) * this.rows))[0];
      const hue = own === undefined ? null : app.hue(own);
      if (hue === null) continue;
      context.fillStyle = `hsl(${hue} 60% ${isDark() ? "50%" : "55%"} / 0.4)`;
      context.fillRect(EDGE, y, WIDTH - EDGE, 1);
    }
  }

  private get used(): number {
    return Math.min(this.height, this.rows * SHORT_PX);
  }
  private to(event: PointerEvent): void {
    const y = event.clientY - this.element.getBoundingClientRect().top;
    const row = Math.floor((y / Math.max(1, this.used)) * this.rows);
    this.go(Math.min(this.rows - 1, Math.max(0, row)));
  }
}

function scale(): number {
  return devicePixelRatio || 1;
}
