// Where one step goes, at the head of the page: one bar of all its parts, and the largest in words.
import type { App } from "../app";
import { h } from "../../shared/dom";
import type { StepPart } from "../../shared/generated/records";
import { formatPercent } from "../../shared/format";

const SHOWN = 8;

export function breakdown(app: App): HTMLElement | null {
  const { parts } = app.header;
  if (!parts.length) return null;
  const bar = h("div", { class: "parts-bar", attrs: { "aria-hidden": "true" } }, ...parts.map((part) => segment(app, part)));
  const rest = parts.slice(SHOWN);
  const more = rest.length > 0 && h("li", { class: "quiet", text: `${rest.length} more in the table breakdown` });
  const list = h("ol", { class: "parts" }, ...parts.slice(0, SHOWN).map((part) => line(app, part)), more);
  return h("div", { class: "step-parts", attrs: { role: "group", "aria-label": "Where one step goes" } }, bar, list);
}

function segment(app: App, part: StepPart): HTMLElement {
  const style = `flex-grow:${part.percent};${colour(app, part)}`;
  return h("span", { title: words(part), class: part.category ? "" : "idle", attrs: { style } });
}

function line(app: App, part: StepPart): HTMLElement {
  return h(
    "li",
    { title: words(part) },
    h("i", { class: part.category ? "" : "idle", attrs: { style: colour(app, part) } }),
    h("span", { class: "name", text: part.name }, part.place ? h("span", { class: "quiet", text: ` ${part.place}` }) : ""),
    h("b", { text: part.time }),
    h("span", { class: "quiet", text: formatPercent(part.percent) }),
  );
}

function colour(app: App, part: StepPart): string {
  const own = part.category ? app.header.colours[part.category] : "";
  return own ? `--own:${own}` : "";
}

function words(part: StepPart): string {
  return `${part.name}: ${part.time}, ${formatPercent(part.percent)}${part.place ? `\nmostly ${part.place}` : ""}`;
}
