// GPU time by call path: every kernel and copy is a leaf below the op that launched it and the callers of that.
import type { Scene } from "../../data/scene";
import type { Selection } from "../../selection";
import { CONTEXTS, HostNodes, nodeLabels, NO_LAUNCH, shownLabels, type Context } from "./paths";
import { ROOT, TreeBuilder, type Tree } from "./tree";

/** A tree and the events whose time it holds, in any order. */
export interface Merged {
  tree: Tree;
  rows: Int32Array;
  /** Per event its node and the time booked there. */
  nodes: Int32Array;
  ns: Float64Array;
  /** Per event a group that stays together in order of time: the thread; absent where there is but one. */
  group?: Int32Array;
}

export function gpuTree(scene: Scene, selection: Selection, context: Context): Merged {
  const { gpuRow, owner, duration, label } = scene.data;
  const build = new TreeBuilder();
  const labels = nodeLabels(scene, build, (kind) => (kind === "runtime" ? "op" : kind));
  const shown = shownLabels(scene, CONTEXTS[context]);
  // The event that kernels are booked on is always shown, so that a launch without an op is seen.
  const owns = new Uint8Array(scene.count);
  for (const event of selection.events) if (owner[event] >= 0) owns[owner[event]] = 1;
  const hosts = new HostNodes(scene, build, labels, (row) => owns[row] === 1 || shown[label[row]] === 1);
  const events = selection.events.length;
  const merged = { rows: new Int32Array(events), nodes: new Int32Array(events), ns: new Float64Array(events) };
  selection.events.forEach((event, index) => {
    const row = gpuRow[event];
    const above = owner[event] >= 0 ? hosts.of(owner[event]) : noLaunch(build);
    const node = build.child(above, labels.name[label[row]], labels.tone[label[row]]);
    build.book(node, duration[row], row, duration[row]);
    merged.rows[index] = row;
    merged.nodes[index] = node;
    merged.ns[index] = duration[row];
  });
  return { tree: build.finish(), ...merged };
}

function noLaunch(build: TreeBuilder): number {
  return build.child(ROOT, build.nameNumber(NO_LAUNCH), build.toneNumber("other"));
}
