// The other two orders of a merged tree: leaves first with their callers below, and calls one after the other in time.
import type { Scene } from "../../data/scene";
import type { Merged } from "./gpu";
import { ROOT, TreeBuilder, type Tree } from "./tree";

/** Turned over: on top what the time was spent in, below it who called it. */
export function inverted(tree: Tree, scene: Scene | null): Tree {
  const build = new TreeBuilder();
  const names = tree.names.map((name) => build.nameNumber(name));
  const tones = tree.tones.map(({ kind, category }) => build.toneNumber(kind, category));
  for (let node = 1; node < tree.parent.length; node++) {
    if (!tree.selfCount[node] && !tree.selfNs[node]) continue;
    let inverted = ROOT;
    for (let at = node; at > ROOT; at = tree.parent[at]) inverted = build.child(inverted, names[tree.name[at]], tones[tree.tone[at]]);
    const row = tree.longest[node];
    build.book(inverted, tree.selfNs[node], row, scene?.data.duration[row] ?? -1, tree.selfCount[node]);
  }
  return build.finish();
}

/** One frame per call, in order of time; neighbours of the same path are one. */
export function inTimeOrder(merged: Merged, scene: Scene, ownFirst: boolean): Tree {
  const { tree } = merged;
  const build = new TreeBuilder();
  const names = tree.names.map((name) => build.nameNumber(name));
  const tones = tree.tones.map(({ kind, category }) => build.toneNumber(kind, category));
  const depth = depthsOf(tree);
  // The path that was open last: per depth the node of the merged tree and the frame that stands for it here.
  const openNode = new Int32Array(depth.length + 1).fill(ROOT);
  const openFrame = new Int32Array(depth.length + 1).fill(ROOT);
  let deepest = 0;
  const isOpen = (node: number): boolean => depth[node] <= deepest && openNode[depth[node]] === node;
  const path: number[] = [];
  for (const event of timeOrder(merged, scene)) {
    for (let at = merged.nodes[event]; !isOpen(at); at = tree.parent[at]) path.push(at);
    while (path.length) {
      const node = path.pop() as number;
      const level = depth[node];
      openFrame[level] = build.append(openFrame[level - 1], names[tree.name[node]], tones[tree.tone[node]]);
      openNode[level] = node;
      deepest = level; // what was open below another frame is over
    }
    const row = merged.rows[event];
    build.book(openFrame[depth[merged.nodes[event]]], merged.ns[event], row, scene.data.duration[row]);
  }
  return build.finish(ownFirst);
}

function depthsOf(tree: Tree): Int32Array {
  const depth = new Int32Array(tree.parent.length);
  for (let node = 1; node < depth.length; node++) depth[node] = depth[tree.parent[node]] + 1;
  return depth;
}

/** Thread by thread, by start. An array, because its sort is quick on the sorted stretches that lanes are. */
function timeOrder({ rows, group }: Merged, scene: Scene): number[] {
  const { start } = scene.data;
  const order = Array.from(rows, (_, event) => event);
  return order.sort((a, b) => (group ? group[a] - group[b] : 0) || start[rows[a]] - start[rows[b]] || rows[a] - rows[b]);
}
