// A tree laid out: frames depth first, so that what is below a frame follows it, each with its position along the width.
import { ROOT, type Tone, type Tree } from "./tree";

export interface Frames {
  names: string[];
  tones: Tone[];
  size: number;
  /** Deepest frame. */
  depthMax: number;
  /** Siblings stand heaviest first. */
  sorted: boolean;
  parent: Int32Array;
  depth: Int32Array;
  /** First frame after those below this one. */
  end: Int32Array;
  /** Where the frame begins, in the unit of its width. */
  x: Float64Array;
  width: Float64Array;
  self: Float64Array;
  count: Float64Array;
  name: Int32Array;
  tone: Int32Array;
  longest: Int32Array;
  /** The node of the tree that each frame shows. */
  node: Int32Array;
}

export function layOut(tree: Tree, sorted: boolean): Frames {
  const size = tree.parent.length;
  const node = depthFirst(tree, sorted);
  const frameOf = new Int32Array(size);
  node.forEach((treeNode, frame) => (frameOf[treeNode] = frame));
  const ints = (values: Int32Array): Int32Array => node.map((treeNode) => values[treeNode]);
  const numbers = (values: Float64Array): Float64Array => new Float64Array(size).map((_, frame) => values[node[frame]]);
  const parent = node.map((treeNode) => (treeNode === ROOT ? -1 : frameOf[tree.parent[treeNode]]));
  const width = numbers(tree.totalNs);
  const depth = new Int32Array(size);
  const end = new Int32Array(size);
  let depthMax = 0;
  for (let frame = 1; frame < size; frame++) depthMax = Math.max(depthMax, (depth[frame] = depth[parent[frame]] + 1));
  for (let frame = size - 1; frame >= 0; frame--) {
    end[frame] = Math.max(end[frame], frame + 1);
    if (frame > ROOT) end[parent[frame]] = Math.max(end[parent[frame]], end[frame]);
  }
  return {
    names: tree.names,
    tones: tree.tones,
    size,
    depthMax,
    sorted,
    parent,
    depth,
    end,
    x: leftEdges(parent, width),
    width,
    self: numbers(tree.selfNs),
    count: numbers(tree.totalCount),
    name: ints(tree.name),
    tone: ints(tree.tone),
    longest: ints(tree.longest),
    node,
  };
}

function leftEdges(parent: Int32Array, width: Float64Array): Float64Array {
  const x = new Float64Array(parent.length);
  const used = new Float64Array(parent.length);
  for (let frame = 1; frame < parent.length; frame++) {
    const above = parent[frame];
    x[frame] = x[above] + used[above];
    used[above] += width[frame];
  }
  return x;
}

/** The nodes depth first; siblings heaviest first, or as they were made. */
function depthFirst({ parent, totalNs }: Tree, sorted: boolean): Int32Array {
  const size = parent.length;
  // Linked from the last sibling to the first, so that a stack yields the first one first.
  const last = new Int32Array(size).fill(-1);
  const before = new Int32Array(size).fill(-1);
  for (let node = 1; node < size; node++) {
    before[node] = last[parent[node]];
    last[parent[node]] = node;
  }
  const order = new Int32Array(size);
  const stack = [ROOT];
  for (let position = 0; stack.length; position++) {
    const node = stack.pop() as number;
    order[position] = node;
    const alone = last[node] < 0 || before[last[node]] < 0;
    if (alone || !sorted) for (let child = last[node]; child >= 0; child = before[child]) stack.push(child);
    else for (const child of lightestFirst(last[node], before, totalNs)) stack.push(child);
  }
  return order;
}

function lightestFirst(last: number, before: Int32Array, totalNs: Float64Array): number[] {
  const siblings: number[] = [];
  for (let child = last; child >= 0; child = before[child]) siblings.push(child);
  return siblings.sort((a, b) => totalNs[a] - totalNs[b] || b - a);
}

export function nameOf(frames: Frames, frame: number): string {
  return frames.names[frames.name[frame]];
}
export function toneOf(frames: Frames, frame: number): Tone {
  return frames.tones[frames.tone[frame]];
}

/** The frames right below one, in order. */
export function* childrenOf(frames: Frames, frame: number): Generator<number> {
  for (let child = frame + 1; child < frames.end[frame]; child = frames.end[child]) yield child;
}

/** The frames from below the root down to this one. */
export function pathTo(frames: Frames, frame: number): number[] {
  const path: number[] = [];
  for (let at = frame; at > ROOT; at = frames.parent[at]) path.push(at);
  return path.reverse();
}
