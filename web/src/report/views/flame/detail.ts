// The lines around the chart: the path that is zoomed into, and what is known of the chosen frame.
import type { App, Target } from "../../app";
import { h, replace } from "../../../shared/dom";
import { significant } from "../../../shared/format";
import { longestTarget, tableTarget } from "./actions";
import { fullName, sentence, type Look } from "./facts";
import { nameOf, pathTo } from "./frames";
import { elide } from "./label";
import { isWhole, type Zoom } from "./zoom";
import { ROOT } from "./tree";

const CRUMBS_AT_END = 4;
const CRUMB_LETTERS = 36;

/** Buttons for the frames above the one that fills the width; the middle of a long path opens on demand. */
export function showCrumbs(host: HTMLElement, look: Look, { root, span }: Zoom, zoom: (frame: number) => void, all = false): void {
  host.hidden = root === ROOT && isWhole(span);
  if (host.hidden) return replace(host);
  const { frames } = look;
  const path = [ROOT, ...pathTo(frames, root)];
  const crumb = (frame: number): HTMLElement => crumbButton(nameOf(frames, frame), frame === root, () => zoom(frame));
  const hidden = all ? 0 : Math.max(0, path.length - 1 - CRUMBS_AT_END);
  const more = h("button", {
    text: `… ${hidden}`,
    title: `Show the ${hidden} frames between`,
    attrs: { "aria-label": `Show the ${hidden} frames between` },
    on: { click: () => showCrumbs(host, look, { root, span }, zoom, true) },
  });
  const reset = h("button", { class: "flame-reset", text: "Reset zoom", on: { click: () => zoom(ROOT) } });
  const stretch = h("span", { class: "quiet", text: `${significant(100 * (span[1] - span[0]))} % of its width` });
  replace(host, reset, crumb(ROOT), hidden > 0 && more, ...path.slice(1 + hidden).map(crumb), !isWhole(span) && stretch);
}

function crumbButton(name: string, isCurrent: boolean, click: () => void): HTMLElement {
  return h("button", {
    text: elide(name, CRUMB_LETTERS),
    title: name,
    attrs: { ...(isCurrent ? { "aria-current": "true" } : {}) },
    on: { click },
  });
}

export const HINTS = {
  chart:
    "Click a frame to zoom in, drag over a stretch to widen it; with the keyboard: arrows move, Enter zooms in, + − widen, Backspace goes back.",
  list: "Click a row to open or close it; with the keyboard: ↑ ↓ move, → opens, ← closes.",
};

/** Facts about the chosen frame, and where to go from it; -1: what can be done. */
export function showDetail(host: HTMLElement, app: App, look: Look, frame: number, hint: string, zoom: (frame: number) => void): void {
  if (frame < 0) return replace(host, h("span", { class: "quiet", text: hint }));
  const { frames } = look;
  const buttons = [h("button", { text: "Zoom in", on: { click: () => zoom(frame) } })];
  buttons.push(goButton(app, "Show in tables", tableTarget(app, frames, frame), "no table has rows about this frame"));
  if (app.scene) buttons.push(goButton(app, "Longest on timeline", longestTarget(frames, frame), "no event to show"));
  replace(
    host,
    h("span", { class: "flame-name", text: fullName(look, frame) }),
    h("span", { text: sentence(look, frame) }),
    h("span", { class: "flame-go" }, ...buttons),
  );
}

function goButton(app: App, text: string, target: Target | null, whyNot: string): HTMLButtonElement {
  const button = h("button", {
    text,
    ...(target ? {} : { title: whyNot }),
    on: { click: () => target && app.go(target) },
  });
  button.disabled = !target;
  return button;
}
