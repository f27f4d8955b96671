// What keys, buttons and the mouse do to the view and the selected event.
import { NONE } from "../../data/scene";
import { isSameRange } from "../../../shared/codecs";
import { launchedInside } from "./links";
import type { Model } from "./model";
import type { Found } from "./search";

export function zoomBy(model: Model, factor: number, x?: number): void {
  model.viewport.zoom(factor, x);
  model.moved();
}
export function panBy(model: Model, pixels: number): void {
  model.viewport.pan(pixels);
  model.moved();
}

/** Fits the selected time, the selected event, what was shown at first, then everything: each press the next that is not yet shown. */
export function fit(model: Model): void {
  const { viewport, windows, event } = model;
  const before = viewport.range;
  const targets: [number, number][] = [];
  if (windows.length) targets.push([windows[0][0], windows[windows.length - 1][1]]);
  if (event) targets.push(model.timesOf(event));
  for (const [from, to] of targets) {
    viewport.frame(from, to);
    if (!isSameRange(viewport.range, before)) return model.moved();
  }
  viewport.showHome();
  if (isSameRange(viewport.range, before)) viewport.showEverything();
  model.moved();
}

export function zoomTo(model: Model, event: Found): void {
  model.viewport.frame(...model.timesOf(event), 0.5);
  model.moved();
}

/** Selects a range of time for every section to describe. */
export function selectRange(model: Model, from: number, to: number): void {
  if (!model.canSelect || to <= from) return;
  model.app.store.set({ range: [Math.round(from), Math.round(to)], steps: [] });
}

export function selectStep(model: Model, step: number): void {
  if (!model.canSelect) return;
  const { store } = model.app;
  const isChosen = store.get("steps").length === 1 && store.get("steps")[0] === step;
  store.set({ steps: isChosen ? [] : [step], range: null });
}

/** The event before or after the selected one in its row. */
export function stepAlong(model: Model, by: 1 | -1): void {
  const { event } = model;
  if (!event) return selectFirst(model);
  const lane = laneOf(model, event);
  if (!lane) return;
  const track = lane.track(lane.rowOf(event.row), model.hidden[event.scene]);
  const position = track.placeOf(event.row) + by;
  if (position >= 0 && position < track.length) model.goTo({ scene: event.scene, row: track.rows[position] });
}

/** From a kernel to its launch and back. */
export function followLink(model: Model): void {
  const { event } = model;
  if (!event) return;
  const scene = model.app.scenes[event.scene];
  const isGpu = scene.gpuEvent[event.row] >= 0;
  const row = isGpu ? scene.launch(event.row) : (launchedInside(scene, event.row)[0] ?? NONE);
  if (row !== NONE) model.goTo({ scene: event.scene, row });
}

/** The first event in view, from the top lane on. */
export function selectFirst(model: Model): void {
  const { viewport, origins, hidden } = model;
  for (const { lane } of model.layout.placed) {
    const track = lane.strip(hidden[lane.sceneNumber]);
    const position = track.firstFrom(viewport.from + origins[lane.sceneNumber], 0);
    const at = position < track.length ? track.starts[position] - origins[lane.sceneNumber] : Infinity;
    if (at < viewport.to) return model.select({ scene: lane.sceneNumber, row: track.rows[position] });
  }
}

export function jumpToMatch(model: Model, forward: boolean): void {
  const { search, event, viewport } = model;
  const isMatch = event && search.flags?.[event.scene][event.row];
  const from = isMatch ? event : null;
  const match = search.next(from ? model.timesOf(from)[0] : forward ? viewport.from - 1 : viewport.to, from, forward);
  if (!match) return;
  model.matchNumber = match.number;
  model.app.go({ to: "event", scene: match.scene, row: match.row });
}

export function laneOf(model: Model, event: Found): Model["lanes"][number] | undefined {
  const number = model.app.scenes[event.scene].data.lane[event.row];
  return model.lanes.find((lane) => lane.sceneNumber === event.scene && lane.source.number === number);
}

/** Shows or hides the critical path, where it is known. */
export function togglePath({ app }: Model): void {
  if (app.path) app.store.set({ path: !app.store.get("path") });
}
