// The families on the chart, each with its mark; a click hides or shows one.
import type { Palette } from "../../palette";
import { h, s } from "../../../shared/dom";
import { formatNs } from "../../../shared/format";
import { familyColour, familyPath } from "./families";
import type { Point } from "./points";

export function legend(points: Point[], hidden: ReadonlySet<string>, palette: Palette, toggle: (family: string) => void): HTMLElement {
  const time = new Map<string, number>();
  for (const { family, totalUs } of points) time.set(family, (time.get(family) ?? 0) + totalUs);
  const buttons = [...time]
    .sort(([, a], [, b]) => b - a)
    .map(([family, us]) =>
      h(
        "button",
        {
          title: `${formatNs(us * 1e3)}; click to ${hidden.has(family) ? "show" : "hide"}`,
          attrs: { "aria-pressed": String(!hidden.has(family)) },
          on: { click: () => toggle(family) },
        },
        symbol(palette, family),
        family || "no family",
      ),
    );
  return h("div", { class: "rl-legend", attrs: { role: "group", "aria-label": "Families of ops" } }, ...buttons);
}

function symbol(palette: Palette, family: string): SVGElement {
  const mark = s("path", { d: familyPath(family, 4.5), fill: familyColour(palette, family), class: "rl-dot" });
  return s("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, mark);
}
