// The frame of the chart: decades, axis titles, and the ceilings with what they are.
import { s } from "../../../shared/dom";
import { significant } from "../../../shared/format";
import type { Layout } from "./layout";
import { hasFlops, isCompute, type Ceiling, type Point } from "./points";
import { powers, tickText, type LogScale } from "./scale";

const STRIP_LABEL = 240; // px: about what the longest label takes

type Line = [x1: number, y1: number, x2: number, y2: number];
const LABEL_STEP = 27;

export function axes(layout: Layout, hasChart: boolean): SVGElement[] {
  const { left, right, top, bottom, x, y, strip } = layout;
  const parts: SVGElement[] = [];
  if (hasChart) {
    parts.push(...bottomAxis(x, top, bottom, "arithmetic intensity, FLOP/B", layout), ...leftAxis(y, layout));
    parts.push(text(14, (top + bottom) / 2, "TFLOP/s", "middle", `rotate(-90 14 ${(top + bottom) / 2})`, "rl-axis"));
  }
  if (strip) {
    parts.push(frame(left, strip.top, right, strip.bottom));
    parts.push(...bottomAxis(strip.x, strip.top, strip.bottom, "bandwidth of ops without FLOPs, TB/s", layout));
  }
  return parts;
}

function bottomAxis(scale: LogScale, top: number, bottom: number, title: string, { left, right }: Layout): SVGElement[] {
  const ticks = powers(scale).flatMap((value) => [
    line([scale(value), top, scale(value), bottom], "rl-gridline"),
    text(scale(value), bottom + 15, tickText(value), "middle"),
  ]);
  return [frame(left, top, right, bottom), ...ticks, text((left + right) / 2, bottom + 32, title, "middle", "", "rl-axis")];
}

function leftAxis(scale: LogScale, { left, right }: Layout): SVGElement[] {
  return powers(scale).flatMap((value) => [
    line([left, scale(value), right, scale(value)], "rl-gridline"),
    text(left - 6, scale(value) + 4, tickText(value), "end"),
  ]);
}

/** The horizontal ceilings and the diagonal of the memory's bandwidth, up to the highest of them. */
export function ceilingLines(layout: Layout, shown: Ceiling[], bandwidth: Ceiling | null, points: Point[]): SVGElement[] {
  const { x, y, right } = layout;
  const levels = merged(shown.filter(isCompute)).sort((a, b) => b.value - a.value);
  const labels = spreadOut(
    levels.map(({ value }) => y(value)),
    layout,
  );
  const parts = levels.flatMap((ceiling, at) => {
    const ridge = bandwidth ? x(ceiling.value / bandwidth.value) : layout.left;
    return [
      line([ridge, y(ceiling.value), right, y(ceiling.value)], lineClass(ceiling)),
      line([right, y(ceiling.value), right + 8, labels[at]], "rl-leader"),
      ...sideLabel(right + 11, labels[at], ceiling),
    ];
  });
  return bandwidth ? [...parts, ...diagonal(layout, bandwidth, levels[0]?.value ?? y.to, points)] : parts;
}

function diagonal(layout: Layout, bandwidth: Ceiling, highest: number, points: Point[]): SVGElement[] {
  const { x, y } = layout;
  const from = Math.max(x.from, y.from / bandwidth.value);
  const to = Math.min(x.to, highest / bandwidth.value);
  if (from >= to) return [];
  const [x1, y1, x2, y2] = [x(from), y(from * bandwidth.value), x(to), y(to * bandwidth.value)];
  const turn = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  const along = (share: number): [number, number] => [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
  const dots = points.filter(hasFlops).map((point) => [x(point.intensity), y(point.tflops)]);
  const room = (share: number): number =>
    Math.min(...dots.map(([dotX, dotY]) => Math.hypot(dotX - along(share)[0], dotY - along(share)[1] + 10)));
  const [midX, midY] = along([0.2, 0.35, 0.5, 0.65, 0.8].reduce((best, share) => (room(share) > room(best) ? share : best)));
  return [
    line([x1, y1, x2, y2], lineClass(bandwidth)),
    text(midX, midY - 7, labelText(bandwidth), "middle", `rotate(${turn} ${midX} ${midY})`, "rl-ceiling-label"),
  ];
}

/** The bandwidths as uprights in the strip. */
export function stripLines(layout: Layout, limits: Ceiling[]): SVGElement[] {
  const { strip, right } = layout;
  if (!strip) return [];
  let free = right + STRIP_LABEL;
  // From the right; a label that would run into the one before it stands at the foot of the strip instead.
  return [...limits]
    .sort((a, b) => b.value - a.value)
    .flatMap((ceiling) => {
      const at = strip.x(ceiling.value);
      const anchor = at > right - STRIP_LABEL / 2 ? "end" : "middle";
      const end = anchor === "end" ? Math.min(at, right) : at + STRIP_LABEL / 2;
      const fits = end < free;
      if (fits) free = end - STRIP_LABEL;
      return [
        line([at, strip.top, at, strip.bottom], lineClass(ceiling)),
        text(Math.min(at, right), fits ? strip.top - 6 : strip.bottom - 4, labelText(ceiling), anchor, "", "rl-ceiling-label"),
      ];
    });
}

/** Ceilings of one height are one line: matrix bf16, fp16. */
function merged(ceilings: Ceiling[]): Ceiling[] {
  const distinct: Ceiling[] = [];
  for (const ceiling of ceilings) {
    const [unit, dtype] = ceiling.name.split(" ");
    const same = distinct.find(
      (other) => other.value === ceiling.value && other.measured === ceiling.measured && other.name.startsWith(unit),
    );
    if (same) same.name += `, ${dtype}`;
    else distinct.push({ ...ceiling });
  }
  return distinct;
}

/** Labels from the top down, no two closer than they are high. */
function spreadOut(heights: number[], { top, bottom }: Layout): number[] {
  const places: number[] = [];
  heights.forEach((height, at) => places.push(Math.max(height, at ? places[at - 1] + LABEL_STEP : top + 8)));
  const over = (places[places.length - 1] ?? 0) - (bottom - 8);
  return over > 0 ? places.map((y, at) => Math.max(top + 8 + at * LABEL_STEP, y - over)) : places;
}

function sideLabel(x: number, y: number, ceiling: Ceiling): SVGElement[] {
  const kind = ceiling.measured ? "measured" : "data sheet";
  return [
    text(x, y, ceiling.name, "start", "", "rl-ceiling-label"),
    text(x, y + 12, `${significant(ceiling.value)} ${ceiling.per} · ${kind}`, "start"),
  ];
}

function labelText({ name, value, per, measured }: Ceiling): string {
  return `${name} ${value < 0.1 ? value : significant(value)} ${per} · ${measured ? "measured" : "data sheet"}`;
}

function lineClass({ measured }: Ceiling): string {
  return measured ? "rl-ceiling" : "rl-ceiling promised";
}

function line([x1, y1, x2, y2]: Line, className: string): SVGElement {
  return s("line", { x1, y1, x2, y2, class: className });
}

function frame(left: number, top: number, right: number, bottom: number): SVGElement {
  return s("rect", { x: left, y: top, width: right - left, height: bottom - top, class: "rl-frame" });
}

function text(x: number, y: number, content: string, anchor: string, transform = "", className = ""): SVGElement {
  return s("text", { x, y, "text-anchor": anchor, class: `rl-text ${className}`, ...(transform ? { transform } : {}) }, content);
}
