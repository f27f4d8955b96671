// What fills the width: a frame, or a stretch of it; and how a link keeps that.
import { childrenOf, nameOf, pathTo, type Frames } from "./frames";
import { ROOT } from "./tree";
import type { ZoomPath } from "../../state";

/** `span`: the stretch of the frame that is shown, from 0 to 1. */
export interface Zoom {
  root: number;
  span: [number, number];
}

export const ALL: [number, number] = [0, 1];
const NARROWEST_SPAN = 1e-6;

export function isWhole([from, to]: [number, number]): boolean {
  return from <= 0 && to >= 1;
}

/** A stretch inside the frame, never narrower than can be drawn. */
export function bounded(from: number, to: number): [number, number] {
  const wide = Math.min(1, Math.max(NARROWEST_SPAN, to - from));
  const start = Math.min(Math.max(0, from), 1 - wide);
  return [start, start + wide];
}

/** Names from the root down, and where siblings share one, which of them. */
export function zoomPath(frames: Frames, { root, span }: Zoom): ZoomPath {
  const names = pathTo(frames, root).map((frame) => ({ name: nameOf(frames, frame), twin: twinsBefore(frames, frame) }));
  return { names, span: isWhole(span) ? null : span };
}

function twinsBefore(frames: Frames, frame: number): number {
  let number = 0;
  for (const sibling of childrenOf(frames, frames.parent[frame])) {
    if (sibling === frame) break;
    if (frames.name[sibling] === frames.name[frame]) number++;
  }
  return number;
}

/** The zoom of a link; where its path is not in this tree, the last frame of it that is. */
export function readZoom(frames: Frames, { names, span }: ZoomPath): Zoom {
  let root = ROOT;
  for (const { name, twin } of names) {
    const twins = [...childrenOf(frames, root)].filter((child) => nameOf(frames, child) === name);
    if (!twins.length) return { root, span: ALL };
    root = twins[twin] ?? twins[0];
  }
  return { root, span: span ? bounded(...span) : ALL };
}
