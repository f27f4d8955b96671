// Keys, mouse and touch on the job's timeline: the same as on a trace's.
import { formatNs } from "../../../shared/format";
import type { Job, JobRank } from "../../data/job";
import { lowerBound } from "../timeline/cover";
import { PAN, SCROLL_PIXELS, ZOOM } from "../timeline/keyboard";
import { CLICK_PIXELS, ZOOM_PER_PIXEL } from "../timeline/pointer";
import type { Viewport } from "../timeline/viewport";
import { rankAt, type PlacedRank } from "./lanes";

const REACH_PIXELS = 2;

/** What the input acts on. */
export interface Stage {
  readonly job: Job;
  readonly viewport: Viewport;
  readonly places: PlacedRank[];
  readonly scrolled: number;
  readonly chosen: number;
  readonly stage: HTMLElement;
  readonly ruler: HTMLElement;
  readonly scroller: HTMLElement;
  readonly canvas: HTMLElement;
  readonly details: HTMLElement;
  moved(): void;
  select(call: number): void;
  hover(call: number, x: number, y: number): void;
  say(text: string, lines: string[], x: number, y: number): void;
  fit(): void;
}

/** The call of a rank at a moment: the shortest that covers it, else the nearest within the tolerance; -1 for none. */
export function callNear(
  { data }: Pick<Job, "data">,
  { first, last }: Pick<JobRank, "first" | "last">,
  time: number,
  tolerance: number,
): number {
  let best = -1;
  let bestGap = tolerance;
  for (let call = lowerBound(data.start, time + tolerance, first, last) - 1; call >= first; call--) {
    const end = data.start[call] + data.length[call];
    const gap = Math.max(0, data.start[call] - time, time - end);
    if (gap < bestGap || (gap === bestGap && (best < 0 || data.length[call] < data.length[best]))) [best, bestGap] = [call, gap];
  }
  return best;
}

export function callAt({ job, places, viewport, scrolled }: Stage, x: number, y: number): number {
  const found = rankAt(places, y + scrolled);
  if (!found?.communicates) return -1;
  return callNear(job, found.place.rank, viewport.time(x), viewport.nsPerPixel * REACH_PIXELS);
}

function pan(stage: Stage, pixels: number): void {
  stage.viewport.pan(pixels);
  stage.moved();
}
function zoom(stage: Stage, factor: number, x?: number): void {
  stage.viewport.zoom(factor, x);
  stage.moved();
}

const ACTIONS: Record<string, (stage: Stage) => void> = {
  w: (stage) => zoom(stage, 1 / ZOOM),
  "+": (stage) => zoom(stage, 1 / ZOOM),
  "=": (stage) => zoom(stage, 1 / ZOOM),
  s: (stage) => zoom(stage, ZOOM),
  "-": (stage) => zoom(stage, ZOOM),
  "−": (stage) => zoom(stage, ZOOM),
  a: (stage) => pan(stage, -stage.viewport.width * PAN),
  arrowleft: (stage) => pan(stage, -stage.viewport.width * PAN),
  d: (stage) => pan(stage, stage.viewport.width * PAN),
  arrowright: (stage) => pan(stage, stage.viewport.width * PAN),
  arrowup: ({ scroller }) => (scroller.scrollTop -= SCROLL_PIXELS),
  arrowdown: ({ scroller }) => (scroller.scrollTop += SCROLL_PIXELS),
  home: (stage) => pan(stage, stage.viewport.x(stage.viewport.extent[0])),
  end: (stage) => pan(stage, stage.viewport.x(stage.viewport.extent[1]) - stage.viewport.width),
  f: (stage) => stage.fit(),
  "[": (stage) => stepAlong(stage, -1),
  "]": (stage) => stepAlong(stage, 1),
  "{": (stage) => stepAcross(stage, -1),
  "}": (stage) => stepAcross(stage, 1),
  enter: (stage) => {
    if (stage.chosen < 0) stepAlong(stage, 1);
    stage.details.focus();
  },
};

/** The rank's call before or after the chosen one; the first in view where none is chosen. */
function stepAlong(stage: Stage, by: 1 | -1): void {
  const { job, chosen, viewport, places } = stage;
  if (chosen < 0) {
    const rank = places[0]?.rank;
    const call = rank ? lowerBound(job.data.start, viewport.from, rank.first, rank.last) : -1;
    return rank && call < rank.last ? stage.select(call) : undefined;
  }
  const { first, last } = job.rankOfCall(chosen);
  if (chosen + by >= first && chosen + by < last) show(stage, chosen + by);
}

/** The same collective on the rank above or below. */
function stepAcross(stage: Stage, by: 1 | -1): void {
  const { job, chosen, places } = stage;
  if (chosen < 0) return;
  const calls = places.flatMap(({ rank }) => job.matched(chosen).filter((call) => call >= rank.first && call < rank.last));
  const next = calls[calls.indexOf(chosen) + by];
  if (next !== undefined) show(stage, next);
}

function show(stage: Stage, call: number): void {
  stage.viewport.reach(stage.job.data.start[call], stage.job.end(call));
  stage.moved();
  stage.select(call);
}

export function listenToInput(stage: Stage): void {
  listenToKeys(stage);
  for (const element of [stage.stage, stage.ruler]) {
    listenToDrags(stage, element);
    element.addEventListener("wheel", (event) => onWheel(stage, event), { passive: false });
    element.addEventListener("pointerleave", () => stage.hover(-1, 0, 0));
    element.addEventListener("mousedown", (event) => {
      if (!isOnPicture(stage, event)) return;
      event.preventDefault(); // else what scrolls inside the picture would take the focus
      stage.stage.focus({ preventScroll: true });
    });
  }
}

function listenToKeys(stage: Stage): void {
  stage.stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // The ranks' buttons inside take Enter themselves.
    if (event.target !== stage.stage && event.key === "Enter") return;
    const action = ACTIONS[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action(stage);
  });
}

function listenToDrags(stage: Stage, element: HTMLElement): void {
  let drag: { x: number; y: number; lastX: number; lastY: number; far: boolean } | null = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !isOnPicture(stage, event)) return;
    const [x, y] = pointIn(stage, event);
    drag = { x, y, lastX: x, lastY: y, far: false };
  });
  element.addEventListener("pointermove", (event) => {
    const [x, y] = pointIn(stage, event);
    if (!drag) return hover(stage, element, event, x, y);
    if (!drag.far) {
      drag.far = Math.hypot(x - drag.x, y - drag.y) > CLICK_PIXELS;
      if (!drag.far) return;
      element.setPointerCapture(event.pointerId);
      element.classList.add("tl-dragged");
      stage.hover(-1, 0, 0);
    }
    pan(stage, drag.lastX - x);
    stage.scroller.scrollTop += drag.lastY - y;
    [drag.lastX, drag.lastY] = [x, y];
  });
  const end = (event: PointerEvent): void => {
    if (!drag) return;
    const { far } = drag;
    drag = null;
    element.classList.remove("tl-dragged");
    if (!far && element === stage.stage) stage.select(callAt(stage, ...pointIn(stage, event)));
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
}

function hover(stage: Stage, element: HTMLElement, event: PointerEvent, x: number, y: number): void {
  const onPicture = element === stage.stage && isOnPicture(stage, event);
  const call = onPicture ? callAt(stage, x, y) : -1;
  stage.stage.style.cursor = call >= 0 ? "pointer" : "";
  stage.hover(call, event.clientX, event.clientY);
  if (call < 0 && onPicture) sayComputation(stage, event, x, y);
}

/** A stretch of computation has no name of its own: its length, and its step. */
function sayComputation(stage: Stage, event: PointerEvent, x: number, y: number): void {
  const found = rankAt(stage.places, y + stage.scrolled);
  if (!found || found.communicates) return;
  const { rank } = found.place;
  const { starts, ends } = rank.compute;
  const time = stage.viewport.time(x);
  const at = lowerBound(ends, time);
  if (at >= starts.length || starts[at] > time + stage.viewport.nsPerPixel) return;
  const step = rank.steps.find(({ from, to }) => time >= from && time < to);
  stage.say(`rank ${rank.rank}: computation for ${formatNs(ends[at] - starts[at])}`, step ? [step.name] : [], event.clientX, event.clientY);
}

/** Over the ranks the wheel scrolls as anywhere on the page; with Ctrl, or over the ruler, it zooms. */
function onWheel(stage: Stage, event: WheelEvent): void {
  const unit = event.deltaMode === 1 ? 33 : event.deltaMode === 2 ? 400 : 1;
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
  const zooms = event.ctrlKey || event.metaKey || stage.ruler.contains(event.target as Node);
  if (sideways) pan(stage, sideways * unit);
  else if (zooms) zoom(stage, Math.exp(event.deltaY * unit * ZOOM_PER_PIXEL), Math.max(0, pointIn(stage, event)[0]));
  else return;
  event.preventDefault();
}

function isOnPicture({ scroller }: Stage, event: MouseEvent): boolean {
  const target = event.target as Element;
  if (target.closest(".tl-label, .tl-corner")) return false;
  return target !== scroller || event.offsetX < scroller.clientWidth;
}

function pointIn({ canvas }: Stage, event: MouseEvent): [number, number] {
  const { left, top } = canvas.getBoundingClientRect();
  return [event.clientX - left, event.clientY - top];
}
