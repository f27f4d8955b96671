// What a search finds: which events match, by their own name or their op's, and the names that match, each with its time and
// its longest event.
import { NONE, type Scene } from "./scene";

export const BY_NAME = 1;
/** A GPU event whose name does not match, but that of its op, or of a recorded caller that is not on the timeline. */
export const BY_OP = 2;

export interface FoundName {
  scene: number;
  /** The longest event of this name. */
  row: number;
  /** The recorded caller that has the name, -1 where the event has it. */
  caller: number;
  isGpu: boolean;
  count: number;
  ns: number;
}

interface Matches {
  wanted: string;
  /** BY_NAME, BY_OP or 0 per event. */
  flags: Uint8Array;
  /** By GPU event (place in gpuRow) the op or caller that matches, -1 for none. */
  callers: Int32Array;
}
/** The box, its list and the timeline all ask for the same words. */
const latest = new WeakMap<Scene, Matches>();

/** `wanted` in lower case. */
export function matchesOf(scene: Scene, wanted: string): Matches {
  const known = latest.get(scene);
  if (known?.wanted === wanted) return known;
  const labels = scene.labelsWith(wanted);
  const callers = callersWith(scene, labels);
  const { label } = scene.data;
  const flags = new Uint8Array(scene.count);
  for (let row = 0; row < scene.count; row++) {
    if (!scene.isTimed(row)) continue;
    if (labels[label[row]]) flags[row] = BY_NAME;
    else if (scene.gpuEvent[row] >= 0 && callers[scene.gpuEvent[row]] >= 0) flags[row] = BY_OP;
  }
  const matches = { wanted, flags, callers };
  latest.set(scene, matches);
  return matches;
}

/** Kernels of a graph share the callers of its capture: each is looked at once. */
function callersWith(scene: Scene, labels: Uint8Array): Int32Array {
  const { owner, label } = scene.data;
  const byOwner = new Map<number, number>();
  return Int32Array.from(owner, (op) => {
    let caller = byOwner.get(op);
    if (caller === undefined) {
      caller = op;
      // An event on the timeline is found itself: only callers without a time stand for the GPU work that they led to.
      while (caller >= 0 && !labels[label[caller]]) caller = scene.isTimed(caller) ? NONE : scene.above(caller);
      byOwner.set(op, caller);
    }
    return caller;
  });
}

/** `wanted` in lower case. */
export function foundNames(scene: Scene, number: number, wanted: string): FoundName[] {
  const { flags, callers } = matchesOf(scene, wanted);
  const { label, duration } = scene.data;
  const byLabel = new Map<number, FoundName>();
  const add = (row: number, caller: number): void => {
    const key = label[caller >= 0 ? caller : row];
    const name = byLabel.get(key);
    if (!name) byLabel.set(key, { scene: number, row, caller, isGpu: scene.gpuEvent[row] >= 0, count: 1, ns: duration[row] });
    else {
      name.count++;
      name.ns += duration[row];
      if (duration[row] > duration[name.row]) name.row = row;
    }
  };
  for (let row = 0; row < scene.count; row++) {
    const event = scene.gpuEvent[row];
    if (flags[row] === BY_NAME) add(row, NONE);
    if (event >= 0 && callers[event] >= 0 && !scene.isTimed(callers[event])) add(row, callers[event]);
  }
  return [...byLabel.values()];
}
