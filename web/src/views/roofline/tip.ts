// What a dot is: op, sizes, speed and limit, beside the dot that has the mouse or the focus.
import { h, replace } from "../../dom";
import { formatCount, formatNs, formatPercent, significant } from "../../format";
import { hasFlops, type Point } from "./points";

export class Tip {
  readonly element = h("div", { class: "rl-tip", attrs: { role: "tooltip" } });

  constructor() {
    this.element.hidden = true;
  }

  show(point: Point, dot: Element): void {
    const facts = factsOf(point).map(([name, value]) => h("tr", {}, h("th", { text: name, attrs: { scope: "row" } }), h("td", { text: value })));
    replace(this.element, h("strong", { text: point.op }), h("p", { text: sizesOf(point) }), h("table", {}, h("tbody", {}, ...facts)));
    this.element.hidden = false;
    this.place(dot.getBoundingClientRect());
  }

  hide(): void {
    this.element.hidden = true;
  }

  private place(dot: DOMRect): void {
    const frame = this.element.offsetParent?.getBoundingClientRect();
    if (!frame) return;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const beside = dot.right - frame.left + 10;
    const fits = beside + width <= frame.width;
    this.element.style.left = `${fits ? beside : Math.max(0, dot.left - frame.left - width - 10)}px`;
    const top = dot.top - frame.top + dot.height / 2 - height / 2;
    this.element.style.top = `${Math.max(0, Math.min(top, frame.height - height))}px`;
  }
}

export function sizesOf({ params, dtype, family }: Point): string {
  return [family, params, dtype].filter(Boolean).join(" · ");
}

function factsOf(point: Point): [string, string][] {
  const facts: [string, string][] = [["time", `${formatNs(point.totalUs * 1e3)}: ${formatCount(point.count)} × ${formatNs(point.meanUs * 1e3)}`]];
  if (hasFlops(point)) facts.push(["speed", `${rate(point.tflops)} TFLOP/s at ${rate(point.intensity)} FLOP/B`]);
  if (point.tbps > 0) facts.push(["bandwidth", `${rate(point.tbps)} TB/s`]);
  if (!Number.isNaN(point.percentOfRoofline)) facts.push(["of roofline", `${formatPercent(point.percentOfRoofline)}, bound by ${boundOf(point)}`]);
  if (point.lostUs > 0) facts.push(["above it", formatNs(point.lostUs * 1e3)]);
  if (point.flag) facts.push(["mind", point.flag]);
  if (point.approximate) facts.push(["approximate", point.approximate]);
  return facts;
}

function boundOf({ bound, unit }: Point): string {
  return unit && unit !== bound ? `${bound} (${unit})` : bound;
}

function rate(value: number): string {
  return value >= 0.01 ? significant(value) : value.toPrecision(2);
}

/** The same in one line, for those who listen. */
export function spoken(point: Point): string {
  return [point.op, sizesOf(point), ...factsOf(point).map(([name, value]) => `${name} ${value}`)].join(", ");
}
