// The timeline's keys: those of the focused picture, and n and N from anywhere on the page.
import { followLink, fit, jumpToMatch, panBy, selectFirst, selectRange, stepAlong, togglePath, zoomBy } from "./moves";
import type { Model } from "./model";
import { addNote } from "./notes";

export const ZOOM = 1.3;
export const PAN = 0.12; // of the width
export const SCROLL_PIXELS = 45;

type Action = (model: Model, stage: Stage) => void;
export interface Stage {
  element: HTMLElement;
  scroll(pixels: number): void;
  openDetails(): void;
}

const zoomIn: Action = (model) => zoomBy(model, 1 / ZOOM);
const zoomOut: Action = (model) => zoomBy(model, ZOOM);
const left: Action = (model) => panBy(model, -model.viewport.width * PAN);
const right: Action = (model) => panBy(model, model.viewport.width * PAN);

const ACTIONS: Record<string, Action> = {
  w: zoomIn,
  "+": zoomIn,
  "=": zoomIn,
  s: zoomOut,
  "-": zoomOut,
  "−": zoomOut,
  a: left,
  arrowleft: left,
  d: right,
  arrowright: right,
  arrowup: (_, stage) => stage.scroll(-SCROLL_PIXELS),
  arrowdown: (_, stage) => stage.scroll(SCROLL_PIXELS),
  home: (model) => panTo(model, model.viewport.extent[0]),
  end: (model) => panTo(model, model.viewport.extent[1] - model.viewport.span),
  f: fit,
  m: (model) => model.event && selectRange(model, ...model.timesOf(model.event)),
  p: (model) => togglePath(model),
  b: (model) => addNote(model),
  "[": (model) => stepAlong(model, -1),
  "]": (model) => stepAlong(model, 1),
  "{": followLink,
  "}": followLink,
  enter: (model, stage) => {
    if (!model.event) selectFirst(model);
    stage.openDetails();
  },
};

export function listenToKeys(model: Model, stage: Stage): void {
  stage.element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // The lanes' buttons inside take Enter themselves.
    if (event.target !== stage.element && event.key === "Enter") return;
    if (event.key === "Escape" && nothingToClear(model)) stage.element.blur();
    const action = ACTIONS[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action(model, stage);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !model.search.flags) return;
    if (event.key === "n" || event.key === "N") jumpToMatch(model, event.key === "n");
  });
}

function panTo(model: Model, from: number): void {
  model.viewport.show(from, from + model.viewport.span);
  model.moved();
}

function nothingToClear({ app }: Model): boolean {
  return (["q", "event", "range", "steps"] as const).every((key) => !app.store.text(key));
}
