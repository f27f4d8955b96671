// Which part of a trace the sections describe: all of it, some steps, or a range of time.
import { formatMoment, formatNs } from "../shared/format";
import type { Scene } from "./data/scene";
import type { Store } from "./state";
import type { Range } from "../shared/codecs";

export interface Selection {
  whole: boolean;
  /** What is selected, for people. */
  text: string;
  /** The stretches of GPU time it covers, in order. */
  windows: [number, number][];
  /** The GPU events that belong to it, as places in the scene's list of GPU events. */
  events: Uint32Array;
  /** Whether a host event belongs to it. */
  hasHost(row: number): boolean;
}

/** A step's GPU events are those it launched; a range's are those that start in it. */
export function select(scene: Scene, store: Store): Selection {
  const range = store.get("range");
  if (range && range[1] > range[0]) return ofRange(scene, range);
  const stepNumbers = new Set(scene.steps.map(({ step }) => step));
  const steps = new Set(store.get("steps").filter((step) => stepNumbers.has(step)));
  return steps.size ? ofSteps(scene, steps) : everything(scene);
}

function everything(scene: Scene): Selection {
  const events = new Uint32Array(scene.data.gpuRow.length);
  for (let event = 0; event < events.length; event++) events[event] = event;
  return { whole: true, text: "the whole trace", windows: [scene.gpuSpan], events, hasHost: () => true };
}

function ofRange(scene: Scene, [from, to]: Range): Selection {
  const inside = (row: number): boolean => scene.data.start[row] >= from && scene.data.start[row] < to;
  return {
    whole: false,
    text: `${formatMoment(from, to - from)} to ${formatMoment(to, to - from)} (${formatNs(to - from)})`,
    windows: [[from, to]],
    events: eventsWhere(scene, inside),
    hasHost: inside,
  };
}

export function ofSteps(scene: Scene, steps: Set<number>): Selection {
  const inside = (row: number): boolean => steps.has(scene.data.step[row]);
  const windows = stepWindows(scene).filter(({ step }) => steps.has(step));
  return {
    whole: false,
    text: `step${steps.size > 1 ? "s" : ""} ${[...steps].sort((a, b) => a - b).join(", ")}`,
    windows: windows.map(({ from, to }) => [from, to]),
    events: eventsWhere(scene, inside),
    hasHost: inside,
  };
}

function eventsWhere(scene: Scene, inside: (row: number) => boolean): Uint32Array {
  const matching: number[] = [];
  scene.data.gpuRow.forEach((row, event) => {
    if (inside(row)) matching.push(event);
  });
  return Uint32Array.from(matching);
}

export interface StepWindow {
  step: number;
  name: string;
  from: number;
  to: number;
}

/** On the GPU a step lasts from its first kernel to the next step's first; without GPU work, as long as on the host. */
export function stepWindows(scene: Scene): StepWindow[] {
  let windows = knownWindows.get(scene);
  if (!windows) knownWindows.set(scene, (windows = windowsOf(scene)));
  return windows;
}

const knownWindows = new WeakMap<Scene, StepWindow[]>();

function windowsOf(scene: Scene): StepWindow[] {
  if (!scene.hasGpu) return scene.steps.map(({ step, name, start, end }) => ({ step, name, from: start, to: end }));
  const { gpuRow, start, duration, step: stepOf } = scene.data;
  const work = new Map<number, [number, number]>();
  for (const row of gpuRow) {
    const step = stepOf[row];
    if (step < 0) continue;
    const end = start[row] + duration[row];
    const reach = work.get(step);
    if (!reach) work.set(step, [start[row], end]);
    else if (start[row] < reach[0]) reach[0] = start[row];
    if (reach && end > reach[1]) reach[1] = end;
  }
  const cuts = stepCuts([...work.values()]);
  return scene.steps.flatMap(({ step, name }) => {
    const from = work.get(step)?.[0];
    return from === undefined ? [] : [{ step, name, from, to: cuts.get(from) ?? from }];
  });
}

/**
 * Where the window that begins at each step's first kernel ends. The last step ends with its own work, less the median of
 * what the other steps' work reaches past their cuts (from three steps on), as in the table steps.
 */
function stepCuts(work: [number, number][]): Map<number, number> {
  const begins = [...new Set(work.map(([from]) => from))].sort((a, b) => a - b);
  const cuts = new Map(begins.slice(0, -1).map((begin, place) => [begin, begins[place + 1]]));
  const pastCut = work.flatMap(([from, to]) => (cuts.has(from) ? [to - cuts.get(from)!] : [])).sort((a, b) => a - b);
  const last = begins[begins.length - 1];
  const end = Math.max(...work.filter(([from]) => from === last).map(([, to]) => to));
  const cut = end - (pastCut.length > 1 ? Math.max(0, Math.trunc(median(pastCut))) : 0);
  return cuts.set(last, cut > last ? cut : end);
}

/** Of sorted values. */
function median(values: number[]): number {
  const middle = values.length >> 1;
  return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}
