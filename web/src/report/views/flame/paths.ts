// From events to nodes: who is shown in a context, and the node of each host event; as analyses/call_tree.py.
import type { Scene } from "../../data/scene";
import { ROOT, type TreeBuilder } from "./tree";

export const CONTEXTS = {
  // context: the kinds of host events that become nodes
  module: ["module", "op"],
  python: ["python", "module", "annotation", "op"],
  op: ["op"],
  annotation: ["annotation", "op"],
} as const;
export type Context = keyof typeof CONTEXTS;

export const NO_LAUNCH = "(no launch recorded)";
export const GPU_WORK = ["kernel", "memcpy", "memset"];
const UNKNOWN = -1;

/** Contexts that the trace records: it has events of their kind. */
export function possibleContexts(scene: Scene): Set<Context> {
  const kinds = kindsOf(scene);
  const possible = new Set<Context>(["op"]);
  for (const kind of ["module", "python", "annotation"] as const) if (kinds.has(kind)) possible.add(kind);
  return possible;
}

/** Modules say most in the fewest levels; without them Python frames, else ops. */
export function defaultContext(possible: Set<Context>): Context {
  return (["module", "python"] as const).find((context) => possible.has(context)) ?? "op";
}

const knownKinds = new WeakMap<Scene, Set<string>>();

export function kindsOf(scene: Scene): Set<string> {
  let kinds = knownKinds.get(scene);
  if (!kinds) {
    kinds = new Set(scene.data.header.labels.kind.map((kind) => scene.kinds[kind]));
    knownKinds.set(scene, kinds);
  }
  return kinds;
}

/** Per label of the scene: the node name and tone that it gets in a tree. */
export interface NodeLabels {
  name: Int32Array;
  tone: Int32Array;
}

export function nodeLabels(scene: Scene, build: TreeBuilder, kindOf: (kind: string) => string): NodeLabels {
  const { kind } = scene.data.header.labels;
  return {
    name: Int32Array.from(kind, (_, label) => build.nameNumber(withoutStep(scene.labelShort(label)))),
    tone: Int32Array.from(kind, (code, label) => {
      const own = scene.kinds[code];
      return build.toneNumber(GPU_WORK.includes(own) ? "kernel" : kindOf(own), scene.labelCategory(label));
    }),
  };
}

/** All steps have one name: a tree is about code, not about time. */
function withoutStep(name: string): string {
  return name.startsWith("ProfilerStep#") ? "ProfilerStep" : name;
}

/** Whether events of a label become nodes. */
export function shownLabels(scene: Scene, kinds: readonly string[]): Uint8Array {
  return Uint8Array.from(scene.data.header.labels.kind, (kind) => Number(kinds.includes(scene.kinds[kind])));
}

/** The caller of a host event; for a backward op the forward op that made it. */
export function callerOf(scene: Scene, row: number): number {
  return scene.data.forward[row] >= 0 ? scene.data.forward[row] : scene.data.parent[row];
}

/** Finds the node of each host event, once. */
export class HostNodes {
  private readonly nodeOfRow: Int32Array;
  private readonly chain: number[] = [];
  private readonly backward: [name: number, tone: number];

  constructor(
    private readonly scene: Scene,
    private readonly build: TreeBuilder,
    private readonly labels: NodeLabels,
    private readonly isShown: (row: number) => boolean,
    /** The node that the outermost event hangs under. */
    private readonly topOf: (row: number) => number = () => ROOT,
  ) {
    this.nodeOfRow = new Int32Array(scene.count).fill(UNKNOWN);
    this.backward = [build.nameNumber(scene.backwardName), build.toneNumber("op")];
  }

  of(row: number): number {
    const { nodeOfRow, chain } = this;
    let at = row;
    // The bound only matters for a damaged trace whose links run in a circle.
    while (at >= 0 && nodeOfRow[at] === UNKNOWN && chain.length <= this.scene.count) {
      chain.push(at);
      at = callerOf(this.scene, at);
    }
    let node = at >= 0 ? nodeOfRow[at] : this.topOf(chain[chain.length - 1]);
    while (chain.length) {
      const event = chain.pop() as number;
      node = this.below(node, event);
      nodeOfRow[event] = node;
    }
    return node;
  }

  private below(node: number, row: number): number {
    const { build, labels } = this;
    if (this.scene.data.forward[row] >= 0) node = build.child(node, ...this.backward);
    if (!this.isShown(row)) return node;
    const label = this.scene.data.label[row];
    return build.child(node, labels.name[label], labels.tone[label]);
  }
}
