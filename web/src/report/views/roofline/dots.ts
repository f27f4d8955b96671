// The marks on the chart: one per op and shapes. One of them takes part in the tab order; arrow keys walk by time.
import type { Palette } from "../../palette";
import { s } from "../../../shared/dom";
import { familyColour, familyPath } from "./families";
import type { Layout } from "./layout";
import { hasFlops, type Point } from "./points";
import type { Tip } from "../../../shared/tip";
import { showTip, spoken } from "./words";

const LARGEST = 17;
const SMALLEST = 3.5;

export class Dots {
  readonly element = s("g");
  private marks: SVGPathElement[] = [];
  private points: Point[] = [];

  constructor(
    private readonly palette: Palette,
    private readonly tip: Tip,
    private readonly open: (point: Point) => void,
  ) {
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  /** Points come in order of time; the heaviest are drawn first, so that they cover none. */
  draw(points: Point[], layout: Layout): void {
    const most = Math.max(...points.map(({ totalUs }) => totalUs), 1e-9);
    this.points = points;
    this.marks = points.map((point, at) => {
      const radius = Math.max(SMALLEST, LARGEST * Math.sqrt(point.totalUs / most));
      return this.mark(point, at, radius, placeOf(point, at, radius, layout));
    });
    this.element.replaceChildren(...this.marks);
  }

  /** Rings the point of this row; fades those that the search does not find. */
  highlight(origin: number, search: string): void {
    this.points.forEach((point, at) => {
      const matches = !search || [point.op, point.params, point.family, point.dtype].some((text) => text.toLowerCase().includes(search));
      this.marks[at].classList.toggle("chosen", point.origin === origin);
      this.marks[at].classList.toggle("faded", !matches);
    });
  }

  private mark(point: Point, at: number, radius: number, [x, y]: [number, number]): SVGPathElement {
    const mark = s("path", {
      d: familyPath(point.family, radius),
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
      fill: familyColour(this.palette, point.family),
      class: `rl-dot${point.flag ? " flagged" : ""}`,
      role: "button",
      tabindex: at ? -1 : 0,
      "aria-label": spoken(point),
    });
    mark.addEventListener("pointerenter", () => showTip(this.tip, point, mark));
    mark.addEventListener("pointerleave", () => this.tip.hide());
    mark.addEventListener("focus", () => this.focused(at));
    mark.addEventListener("blur", () => this.tip.hide());
    mark.addEventListener("click", () => this.open(point));
    return mark;
  }

  private focused(at: number): void {
    this.marks.forEach((mark, index) => mark.setAttribute("tabindex", index === at ? "0" : "-1"));
    showTip(this.tip, this.points[at], this.marks[at]);
  }

  private key(event: KeyboardEvent): void {
    const at = this.marks.indexOf(event.target as SVGPathElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.marks.length - 1;
    const [next, before] = [Math.min(last, at + 1), Math.max(0, at - 1)];
    const to = { ArrowRight: next, ArrowDown: next, ArrowLeft: before, ArrowUp: before, Home: 0, End: last }[event.key];
    if (event.key === "Enter" || event.key === " ") this.open(this.points[at]);
    else if (to !== undefined) this.marks[to].focus();
    else if (event.key === "Escape") this.tip.hide();
    else return;
    event.preventDefault();
  }
}

function placeOf(point: Point, at: number, radius: number, { x, y, strip }: Layout): [number, number] {
  if (hasFlops(point) || !strip) return [x(point.intensity), y(point.tflops)];
  // Ops of one speed would lie on each other: they are spread over the strip's height.
  const share = ((at * 5) % 9) / 8;
  const margin = 1.4 * radius + 2;
  return [strip.x(point.tbps), strip.top + margin + share * Math.max(0, strip.bottom - strip.top - 2 * margin)];
}
