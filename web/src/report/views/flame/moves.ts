// Where the arrow keys lead from a frame; frames too narrow to be drawn are passed over.
import { childrenOf, type Frames } from "./frames";

type Move = (frames: Frames, frame: number, root: number, narrowest: number) => number;

const up: Move = (frames, frame, root) => (frame === root ? frame : frames.parent[frame]);

const down: Move = (frames, frame, _root, narrowest) => {
  let widest = -1;
  for (const child of childrenOf(frames, frame)) if (widest < 0 || frames.width[child] > frames.width[widest]) widest = child;
  return widest >= 0 && frames.width[widest] >= narrowest ? widest : frame;
};

const beside =
  (step: 1 | -1): Move =>
  (frames, frame, root, narrowest) => {
    if (frame === root) return frame;
    const drawn = [...childrenOf(frames, frames.parent[frame])].filter(
      (sibling) => sibling === frame || frames.width[sibling] >= narrowest,
    );
    return drawn[drawn.indexOf(frame) + step] ?? frame;
  };

export const MOVES: Record<string, Move> = {
  ArrowUp: up,
  ArrowDown: down,
  ArrowLeft: beside(-1),
  ArrowRight: beside(1),
  Home: (_frames, _frame, root) => root,
};
