// What a dot is, in words: op, sizes, speed and limit.
import { formatCount, formatNs, formatPercent, significant } from "../../../shared/format";
import type { Fact, Tip } from "../../../shared/tip";
import { hasFlops, type Point } from "./points";

/** What a tooltip says of a dot, beside the dot. */
export function showTip(tip: Tip, point: Point, dot: Element): void {
  const { right, top, height } = dot.getBoundingClientRect();
  tip.show(point.op, [sizesOf(point)], factsOf(point), right, top + height / 2);
}

export function sizesOf({ params, dtype, family }: Point): string {
  return [family, params, dtype].filter(Boolean).join(" · ");
}

function factsOf(point: Point): Fact[] {
  const facts: Fact[] = [["time", `${formatNs(point.totalUs * 1e3)}: ${formatCount(point.count)} × ${formatNs(point.meanUs * 1e3)}`]];
  if (hasFlops(point)) facts.push(["speed", `${rate(point.tflops)} TFLOP/s at ${rate(point.intensity)} FLOP/B`]);
  if (point.tbps > 0) facts.push(["bandwidth", `${rate(point.tbps)} TB/s`]);
  if (!Number.isNaN(point.percentOfRoofline))
    facts.push(["of roofline", `${formatPercent(point.percentOfRoofline)}, bound by ${boundOf(point)}`]);
  if (point.lostUs > 0) facts.push(["lost", formatNs(point.lostUs * 1e3)]);
  if (point.flag) facts.push(["caution", point.flag]);
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
