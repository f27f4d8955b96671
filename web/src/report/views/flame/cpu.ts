// CPU time by call path: every host event gives its own time, what no inner event takes, to its node.
import { NONE, type Lane, type Scene } from "../../data/scene";
import type { Selection } from "../../selection";
import type { Merged } from "./gpu";
import { ownTimes, waitingLanes } from "./own";
import { callerOf, CONTEXTS, HostNodes, nodeLabels, shownLabels, type Context } from "./paths";
import { ROOT, TreeBuilder } from "./tree";

/** The host events that a context shows, each with its own time; it is the same whatever is selected. */
interface Calls {
  rows: Int32Array;
  ownNs: Float64Array;
  shown: Uint8Array;
}

const knownCalls = new WeakMap<Scene, Map<Context, Calls>>();

function callsOf(scene: Scene, context: Context): Calls {
  let contexts = knownCalls.get(scene);
  if (!contexts) knownCalls.set(scene, (contexts = new Map<Context, Calls>()));
  let calls = contexts.get(context);
  if (!calls) contexts.set(context, (calls = findCalls(scene, context)));
  return calls;
}

function findCalls(scene: Scene, context: Context): Calls {
  const { label, lane } = scene.data;
  const shown = shownLabels(scene, [...CONTEXTS[context], "runtime"]);
  const waits = waitingLanes(scene);
  const rows = new Int32Array(scene.count);
  let size = 0;
  for (let row = 0; row < scene.count; row++) if (shown[label[row]] && !waits[lane[row]]) rows[size++] = row;
  const kept = rows.slice(0, size);
  return { rows: kept, ownNs: ownTimes(scene, kept), shown };
}

export function cpuTree(scene: Scene, selection: Selection, context: Context): Merged {
  const { label, duration } = scene.data;
  const calls = callsOf(scene, context);
  const chosen = chosenCalls(calls, selection);
  const rows = chosen.map((call) => calls.rows[call]);
  const build = new TreeBuilder();
  const labels = nodeLabels(scene, build, (kind) => kind);
  const group = topLanes(scene, rows);
  const threads = threadNodes(scene, build, group);
  const hosts = new HostNodes(
    scene,
    build,
    labels,
    (row) => calls.shown[label[row]] === 1,
    (row) => threads[scene.data.lane[row]],
  );
  const ns = new Float64Array(chosen.length).map((_, index) => calls.ownNs[chosen[index]]);
  const nodes = rows.map((row, index) => {
    const node = hosts.of(row);
    build.book(node, ns[index], row, duration[row]);
    return node;
  });
  return { tree: build.finish(true), rows, nodes, ns, group };
}

function chosenCalls(calls: Calls, selection: Selection): Int32Array {
  const chosen = new Int32Array(calls.rows.length);
  let size = 0;
  calls.rows.forEach((row, call) => {
    if (selection.hasHost(row)) chosen[size++] = call;
  });
  return chosen.slice(0, size);
}

/** Per event the thread of its outermost caller: backward ops belong to the thread that ran the forward ones. */
function topLanes(scene: Scene, rows: Int32Array): Int32Array {
  const nodeOfRow = new Int32Array(scene.count).fill(NONE);
  const chain: number[] = [];
  return rows.map((row) => {
    let at = row;
    let top = row;
    while (at >= 0 && nodeOfRow[at] === NONE && chain.length <= scene.count) {
      chain.push(at);
      top = at;
      at = callerOf(scene, at);
    }
    const lane = at >= 0 && nodeOfRow[at] !== NONE ? nodeOfRow[at] : scene.data.lane[top];
    while (chain.length) nodeOfRow[chain.pop() as number] = lane;
    return lane;
  });
}

/** Per lane the node of its thread; the root where only one thread has work. */
function threadNodes(scene: Scene, build: TreeBuilder, group: Int32Array): Int32Array {
  const works = new Uint8Array(scene.lanes.length);
  group.forEach((lane) => (works[lane] = 1));
  const nodes = new Int32Array(scene.lanes.length).fill(ROOT);
  if (works.reduce((sum, active) => sum + active, 0) < 2) return nodes;
  const tone = build.toneNumber("thread");
  works.forEach((has, lane) => {
    if (has) nodes[lane] = build.child(ROOT, build.nameNumber(threadName(scene.lanes[lane])), tone);
  });
  return nodes;
}

/** What the trace calls a thread, with its number. */
function threadName({ process, thread, thread_name: name }: Lane): string {
  if (name.includes(thread)) return name;
  return name ? `thread ${thread} (${name})` : `process ${process} thread ${thread}`;
}
