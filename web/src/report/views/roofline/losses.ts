// Where most time is lost: the ops that take most time beyond what their roofline asks for, all calls together.
import { h } from "../../../shared/dom";
import { formatNs, formatPercent } from "../../../shared/format";
import type { Point } from "./points";
import { sizesOf } from "./words";

const SHOWN = 10;

export function losses(points: Point[], open: (point: Point) => void): HTMLElement {
  const lossy = points.filter(({ lostUs }) => lostUs > 0).sort((a, b) => b.lostUs - a.lostUs);
  const most = lossy[0]?.lostUs ?? 1;
  const items = lossy.slice(0, SHOWN).map((point) => h("li", {}, item(point, most, open)));
  return h(
    "div",
    { class: "rl-losses" },
    h("h3", { text: "Where time is lost" }),
    h("p", { class: "quiet", text: summary(points, lossy) }),
    h("ol", {}, ...items),
  );
}

function summary(points: Point[], lossy: Point[]): string {
  if (!lossy.length) return "No op here has a known limit that it stays below.";
  const flagged = lossy.filter(({ flag }) => flag);
  const caution = flagged.length
    ? ` ${formatNs(1e3 * sum(flagged, "lostUs"))} of it is in ops marked ⚑: their share says little (see the flag).`
    : "";
  return `${formatNs(1e3 * sum(lossy, "lostUs"))} of ${formatNs(1e3 * sum(points, "totalUs"))} is more than the roofline asks for.${caution}`;
}

function sum(points: Point[], key: "lostUs" | "totalUs"): number {
  return points.reduce((total, point) => total + (point[key] || 0), 0);
}

function shareText(percent: number): string {
  return percent < 0.05 ? "< 0.1 %" : formatPercent(percent);
}

function item(point: Point, most: number, open: (point: Point) => void): HTMLElement {
  const bar = h("span", { class: "rl-bar" });
  bar.style.width = `${(100 * point.lostUs) / most}%`;
  return h(
    "button",
    { title: point.flag ? `⚑ ${point.flag}` : "", on: { click: () => open(point) } },
    bar,
    h("span", { class: "rl-op", text: `${point.op}${point.flag ? " ⚑" : ""}` }),
    h("span", { class: "rl-lost", text: formatNs(1e3 * point.lostUs) }),
    h("span", { class: "rl-sizes", text: sizesOf(point) }),
    h("span", { class: "rl-share", text: `${shareText(point.percentOfRoofline)} of limit` }),
  );
}
