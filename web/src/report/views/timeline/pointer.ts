// Mouse and touch: drag moves, Shift+drag and the ruler select time, the wheel zooms, hovering names, a click selects.
import { counterAt, laneAt, type PlacedCounter } from "./layout";
import { momentAt } from "./paint_counters";
import type { Model } from "./model";
import { laneOf, panBy, selectRange, selectStep, zoomBy, zoomTo } from "./moves";
import { goToNote } from "./notes";
import { bandsOf, BAND_HEIGHT, FLAG, noteFlags } from "./ruler";
import type { Found } from "./search";
import { gapsOf, type Gap } from "../../data/measures";
import { formatCount, formatMoment, formatNs } from "../../../shared/format";
import type { Fact, Tip } from "../../../shared/tip";

export const CLICK_PIXELS = 4;
export const ZOOM_PER_PIXEL = 0.002; // a notch of a common wheel is 100
const REACH_PIXELS = 3;

export interface Hit extends Found {
  /** How many events lie within the pointer's reach. */
  near: number;
}

export interface Place {
  stage: HTMLElement;
  scroller: HTMLElement;
  canvas: HTMLElement;
  ruler: HTMLElement;
}

interface Drag {
  kind: "move" | "range";
  x: number;
  y: number;
  lastX: number;
  lastY: number;
  from: number;
  far: boolean;
}

/** The event at a point of the picture. */
function eventAt(model: Model, x: number, y: number): Hit | null {
  const target = laneAt(model.layout, y, model.scrolled);
  if (!target) return null;
  const { placed, row } = target;
  const { lane, open } = placed;
  const hidden = model.hidden[lane.sceneNumber];
  const track = open ? lane.track(row, hidden) : lane.strip(hidden);
  const time = model.viewport.time(x) + model.origins[lane.sceneNumber];
  const { position, near } = track.at(time, model.viewport.nsPerPixel * REACH_PIXELS * 0.5);
  return position < 0 ? null : { scene: lane.sceneNumber, row: track.rows[position], near };
}

export function listenToPointer(model: Model, area: Place, tip: Tip): void {
  const surfaces: [HTMLElement, Drag["kind"]][] = [
    [area.stage, "move"],
    [area.ruler, "range"],
  ];
  for (const [element, kind] of surfaces) listenToDrags(model, area, tip, element, kind);
  area.stage.addEventListener("dblclick", (event) => {
    if (isOnPicture(area, event) && model.event) zoomTo(model, model.event);
  });
  for (const element of [area.stage, area.ruler]) {
    element.addEventListener("mousedown", (event) => {
      if (!isOnPicture(area, event)) return;
      event.preventDefault(); // else what scrolls inside the picture would take the focus
      area.stage.focus({ preventScroll: true });
    });
    element.addEventListener("wheel", (event) => onWheel(model, area, event), { passive: false });
    element.addEventListener("pointerleave", () => tip.hide());
  }
}

function listenToDrags(model: Model, area: Place, tip: Tip, element: HTMLElement, kind: Drag["kind"]): void {
  let drag: Drag | null = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !isOnPicture(area, event)) return;
    const { x, y } = pointIn(area, event);
    const selects = model.canSelect && (kind === "range" || event.shiftKey);
    drag = { kind: selects ? "range" : "move", x, y, lastX: x, lastY: y, from: model.viewport.time(x), far: false };
  });
  element.addEventListener("pointermove", (event) => {
    const point = pointIn(area, event);
    if (!drag) return hover(model, area, tip, element === area.stage && isOnPicture(area, event), event, point);
    if (!drag.far) {
      drag.far = Math.hypot(point.x - drag.x, point.y - drag.y) > CLICK_PIXELS;
      if (!drag.far) return;
      // Captured only now: a captured pointer sends its click to this element, not to what is under it.
      element.setPointerCapture(event.pointerId);
      element.classList.add("tl-dragged");
      tip.hide();
    }
    if (drag.kind === "range") model.drag(ordered(drag.from, model.viewport.time(point.x)));
    else {
      panBy(model, drag.lastX - point.x);
      area.scroller.scrollTop += drag.lastY - point.y;
    }
    [drag.lastX, drag.lastY] = [point.x, point.y];
  });
  const end = (event: PointerEvent): void => {
    if (!drag) return;
    const { far, kind: dragged, from } = drag;
    drag = null;
    element.classList.remove("tl-dragged");
    const { x, y } = pointIn(area, event);
    if (far && dragged === "range") {
      model.drag(null);
      if (event.type === "pointerup") selectRange(model, ...ordered(from, model.viewport.time(x)));
    } else if (!far && element === area.stage) click(model, x, y);
    else if (!far) clickRuler(model, event, area, x);
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
}

/** A click selects what is there: a moment of a counter, or an event. */
function click(model: Model, x: number, y: number): void {
  const placed = counterAt(model.layout, y, model.scrolled);
  if (placed) model.choose({ counter: placed.counter, time: momentAt(model, placed.counter, x) });
  else model.select(eventAt(model, x, y));
}

function counterWords(model: Model, { counter }: PlacedCounter, x: number): [title: string, lines: string[], facts: Fact[]] {
  const time = momentAt(model, counter, x);
  const row = counter.rowAt(time);
  if (row < 0) return [counter.title, ["no value yet"], []];
  const facts = counter.series.map(({ name, values }): Fact => [name, values[row] > 0 ? counter.shown(values[row]) : ""]);
  if (counter.line) facts.push([counter.line.name, counter.shown(counter.line.values[row])]);
  const what = row === counter.peak ? "the peak" : formatMoment(time, model.viewport.span / 100);
  const shown = counter.stacked || counter.line || counter.series.length > 1 ? facts.filter(([, value]) => value) : [];
  const lines = counter.hint ? [what, counter.hint] : [what];
  return [`${counter.title}: ${counter.shown(counter.total[row])}`, lines, shown];
}

function hover(model: Model, area: Place, tip: Tip, onPicture: boolean, event: PointerEvent, point: { x: number; y: number }): void {
  const counter = onPicture ? counterAt(model.layout, point.y, model.scrolled) : null;
  if (counter) {
    area.stage.style.cursor = "pointer";
    return tip.show(...counterWords(model, counter, point.x), event.clientX, event.clientY);
  }
  const hit = onPicture ? eventAt(model, point.x, point.y) : null;
  area.stage.style.cursor = hit ? "pointer" : "";
  const idle = onPicture && !hit ? idleAt(model, point.x, point.y) : null;
  if (hit) tip.show(...wordsOf(model, hit), [], event.clientX, event.clientY);
  else if (idle) tip.show(...idleWords(model, idle), [], event.clientX, event.clientY);
  else tip.hide();
}

/** The gap under a point of a GPU's lane. */
function idleAt(model: Model, x: number, y: number): Gap | null {
  const target = laneAt(model.layout, y, model.scrolled);
  const lane = target?.placed.lane;
  if (!lane?.source.gpu) return null;
  const time = model.viewport.time(x) + model.origins[lane.sceneNumber];
  return gapsOf(model.app.scenes[lane.sceneNumber]).find(({ start, end }) => time >= start && time < end) ?? null;
}

function idleWords(model: Model, { gpu, start, end, cause }: Gap): [title: string, lines: string[]] {
  const meaning = model.app.header.definitions["causes of idleness"]?.[cause];
  return [`GPU ${gpu} idle for ${formatNs(end - start)}: ${cause}`, meaning ? [meaning] : []];
}

function clickRuler(model: Model, event: PointerEvent, area: Place, x: number): void {
  const note = noteFlags(model).findIndex((left) => x >= left - 1 && x <= left + FLAG);
  const fromBottom = area.ruler.getBoundingClientRect().bottom - event.clientY;
  if (note >= 0 && fromBottom <= FLAG) return goToNote(model, model.notes[note]);
  const band = Math.floor((event.clientY - area.ruler.getBoundingClientRect().top) / BAND_HEIGHT);
  const scene = bandsOf(model)[band];
  if (scene === undefined) return;
  const time = model.viewport.time(x) + model.origins[scene];
  const step = model.steps[scene].find(({ from, to }) => time >= from && time < to);
  if (step) selectStep(model, step.step);
}

/** Over the lanes the wheel scrolls as anywhere on the page; with Ctrl, or over the ruler, it zooms. */
function onWheel(model: Model, area: Place, event: WheelEvent): void {
  const { x } = pointIn(area, event);
  const unit = event.deltaMode === 1 ? 33 : event.deltaMode === 2 ? 400 : 1;
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
  const zooms = event.ctrlKey || event.metaKey || area.ruler.contains(event.target as Node);
  if (sideways) panBy(model, sideways * unit);
  else if (zooms) zoomBy(model, Math.exp(event.deltaY * unit * ZOOM_PER_PIXEL), Math.max(0, x));
  else return;
  event.preventDefault();
}

function isOnPicture({ scroller }: Place, event: MouseEvent): boolean {
  const target = event.target as HTMLElement;
  if (target.closest(".tl-label, .tl-heading, .tl-corner")) return false;
  // The scroll bar belongs to the scroller but is beyond what it shows.
  return target !== scroller || event.offsetX < scroller.clientWidth;
}

function pointIn({ canvas }: Place, event: MouseEvent): { x: number; y: number } {
  const { left, top } = canvas.getBoundingClientRect();
  return { x: event.clientX - left, y: event.clientY - top };
}

function ordered(a: number, b: number): [number, number] {
  return a < b ? [a, b] : [b, a];
}

/** What a tooltip says of an event: its name, then its time and what it is. */
function wordsOf(model: Model, hit: Hit): [title: string, lines: string[]] {
  const scene = model.app.scenes[hit.scene];
  const [from, to] = model.timesOf(hit);
  const what = scene.isInside ? laneOf(model, hit)?.fullTitle : scene.sort(hit.row);
  const lines = [`${formatNs(to - from)} · ${what} · at ${formatNs(from)}`];
  if (hit.near > 1) lines.push(`the longest of ${formatCount(hit.near)} events here: zoom in to separate them`);
  return [scene.short(hit.row), lines];
}
