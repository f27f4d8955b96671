// The host's time, each instant given to the innermost of some events on its thread; as analyses/host_times.py.
import { NONE, type Scene } from "../../data/scene";

const HOST = ["python", "module", "annotation", "op", "runtime"];

/**
 * What each event lasts less those among them that it calls, in ns. An event's time is the part inside its caller and
 * after the sibling before it: its duration, but for annotations, which open and close in the middle of frames, and
 * where the clocks of two recorders disagree.
 */
export function ownTimes(scene: Scene, rows: Int32Array): Float64Array {
  const caller = callersAmong(scene, rows);
  const begin = new Float64Array(rows.length).map((_, index) => scene.start(rows[index]));
  const end = new Float64Array(rows.length).map((_, index) => scene.end(rows[index]));
  for (const level of levelsOf(scene, rows, caller)) fit(level, caller, begin, end);
  const own = begin.map((from, index) => end[index] - from);
  const lasts = own.slice();
  caller.forEach((around, index) => {
    if (around >= 0) own[around] -= lasts[index];
  });
  return own;
}

/** For each event the nearest one of them around it, as a place in `rows`; -1 for none. */
function callersAmong(scene: Scene, rows: Int32Array): Int32Array {
  const { parent } = scene.data;
  const callOfRow = new Int32Array(scene.count).fill(NONE);
  rows.forEach((row, number) => (callOfRow[row] = number));
  return rows.map((row) => {
    let at = parent[row];
    while (at >= 0 && callOfRow[at] === NONE) at = parent[at];
    return at >= 0 ? callOfRow[at] : NONE;
  });
}

/** The events of one thread and depth together, outer depths first. */
function levelsOf(scene: Scene, rows: Int32Array, caller: Int32Array): number[][] {
  const depth = depthsOf(caller);
  const levels = new Map<number, number[]>();
  const lanes = scene.lanes.length;
  rows.forEach((row, index) => {
    const key = depth[index] * lanes + scene.data.lane[row];
    const level = levels.get(key);
    if (level) level.push(index);
    else levels.set(key, [index]);
  });
  return [...levels.keys()].sort((a, b) => a - b).map((key) => levels.get(key) as number[]);
}

function depthsOf(caller: Int32Array): Int32Array {
  const depth = new Int32Array(caller.length).fill(NONE);
  const chain: number[] = [];
  for (let call = 0; call < caller.length; call++) {
    let at = call;
    while (at >= 0 && depth[at] === NONE) {
      chain.push(at);
      at = caller[at];
    }
    let level = at >= 0 ? depth[at] : NONE;
    while (chain.length) depth[chain.pop() as number] = ++level;
  }
  return depth;
}

/** Cuts the events of one thread and depth to their callers, and each to after the one before it. */
function fit(level: number[], caller: Int32Array, begin: Float64Array, end: Float64Array): void {
  const callerBegin = (call: number): number => (caller[call] >= 0 ? begin[caller[call]] : 0);
  level.sort((a, b) => callerBegin(a) - callerBegin(b) || begin[a] - begin[b]);
  let before = -Infinity;
  for (const call of level) {
    const around = caller[call];
    let from = begin[call];
    let to = end[call];
    if (around >= 0) {
      from = Math.min(Math.max(from, begin[around]), end[around]);
      to = Math.min(to, end[around]);
    }
    to = Math.max(from, to);
    begin[call] = Math.max(from, before);
    end[call] = Math.max(begin[call], to);
    before = Math.max(before, to);
  }
}

/**
 * Threads that only wait: one chain of Python frames in which nothing starts or ends, as monitors and worker pools
 * have. Their time is not work; where there are no other threads, these are the work.
 */
export function waitingLanes(scene: Scene): Uint8Array {
  const isHost = kindFlags(scene, HOST);
  const isPython = kindFlags(scene, ["python"]);
  const { label, lane, depth } = scene.data;
  const events = new Int32Array(scene.lanes.length);
  const deepest = new Int32Array(scene.lanes.length);
  const others = new Uint8Array(scene.lanes.length);
  for (let row = 0; row < scene.count; row++) {
    if (!isHost[label[row]]) continue;
    events[lane[row]]++;
    deepest[lane[row]] = Math.max(deepest[lane[row]], depth[row]);
    if (!isPython[label[row]]) others[lane[row]] = 1;
  }
  const waits = others.map((other, number) => Number(events[number] > 0 && !other && events[number] === deepest[number] + 1));
  const someoneWorks = waits.some((wait, number) => !wait && events[number] > 0);
  return someoneWorks ? waits : waits.fill(0);
}

function kindFlags(scene: Scene, kinds: string[]): Uint8Array {
  return Uint8Array.from(scene.data.header.labels.kind, (kind) => Number(kinds.includes(scene.kinds[kind])));
}
