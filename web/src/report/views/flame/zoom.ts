// What fills the width: a frame, or a stretch of it; and how a link keeps that.
import { childrenOf, nameOf, pathTo, type Frames } from "./frames";
import { ROOT } from "./tree";

/** `span`: the stretch of the frame that is shown, from 0 to 1. */
export interface Zoom {
  root: number;
  span: [number, number];
}

export const ALL: [number, number] = [0, 1];
const LEVEL = "\u0001";
const NUMBER = "\u0002";
const SPAN = "\u0003";
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
export function zoomText(frames: Frames, { root, span }: Zoom): string {
  const names = pathTo(frames, root).map((frame) => {
    const number = twinsBefore(frames, frame);
    return nameOf(frames, frame) + (number ? NUMBER + number : "");
  });
  return names.join(LEVEL) + (isWhole(span) ? "" : SPAN + span.map((edge) => edge.toPrecision(10)).join("-"));
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
export function readZoom(frames: Frames, text: string): Zoom {
  const [path, span] = text.split(SPAN);
  let root = ROOT;
  for (const part of path ? path.split(LEVEL) : []) {
    const [name, number] = part.split(NUMBER);
    const twins = [...childrenOf(frames, root)].filter((child) => nameOf(frames, child) === name);
    if (!twins.length) return { root, span: ALL };
    root = twins[Number(number ?? 0)] ?? twins[0];
  }
  const edges = /^([\d.e-]+?)-([\d.]+(?:e-\d+)?)$/.exec(span ?? "");
  return { root, span: edges ? bounded(Number(edges[1]), Number(edges[2])) : ALL };
}
