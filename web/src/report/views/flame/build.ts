// The tree for what the reader has chosen: made when first asked for, then kept as long as the selection is.
import type { App } from "../../app";
import type { Scene } from "../../data/scene";
import type { Selection } from "../../selection";
import { cpuTree } from "./cpu";
import { layOut, type Frames } from "./frames";
import { gpuTree, type Merged } from "./gpu";
import { inTimeOrder, inverted } from "./orders";
import { defaultContext, possibleContexts, type Context } from "./paths";
import type { Tree } from "./tree";

export type Weight = "gpu" | "cpu";
export type Order = "left" | "time" | "inverted";

export interface Chosen {
  weight: Weight;
  order: Order;
  context: Context;
}

/** What the state asks for, or the nearest thing that the trace has. */
export function chosenOf(app: App, scene: Scene): Chosen {
  const possible = possibleContexts(scene);
  const context = app.store.get("context");
  return {
    weight: app.store.get("weight") === "cpu" || !scene.hasGpu ? "cpu" : "gpu",
    order: app.store.get("order"),
    context: context && possible.has(context) ? context : defaultContext(possible),
  };
}

interface Kept {
  merged: Map<string, Merged>;
  frames: Map<string, Frames>;
}

const kept = new WeakMap<Selection, Kept>();

function keptFor(selection: Selection): Kept {
  let all = kept.get(selection);
  if (!all) kept.set(selection, (all = { merged: new Map(), frames: new Map() }));
  return all;
}

export function mergedFor(scene: Scene, selection: Selection, { weight, context }: Chosen): Merged {
  const { merged } = keptFor(selection);
  const key = `${weight} ${context}`;
  let tree = merged.get(key);
  if (!tree) merged.set(key, (tree = (weight === "gpu" ? gpuTree : cpuTree)(scene, selection, context)));
  return tree;
}

export function framesFor(scene: Scene, selection: Selection, chosen: Chosen): Frames {
  const { frames } = keptFor(selection);
  const key = `${chosen.weight} ${chosen.context} ${chosen.order}`;
  let laidOut = frames.get(key);
  if (!laidOut) frames.set(key, (laidOut = layOut(ordered(scene, selection, chosen), chosen.order !== "time")));
  return laidOut;
}

export function isKept(selection: Selection, chosen: Chosen): boolean {
  return keptFor(selection).frames.has(`${chosen.weight} ${chosen.context} ${chosen.order}`);
}

function ordered(scene: Scene, selection: Selection, chosen: Chosen): Tree {
  const merged = mergedFor(scene, selection, chosen);
  if (chosen.order === "inverted") return inverted(merged.tree, scene);
  if (chosen.order === "time") return inTimeOrder(merged, scene, chosen.weight === "cpu");
  return merged.tree;
}
