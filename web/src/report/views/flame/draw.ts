// Draws the frames that can be seen: nothing narrower than half a pixel, nothing outside the window.
import type { Palette } from "../../palette";
import { cssColour } from "../../../shared/colours";
import type { Look } from "./facts";
import { nameOf, type Frames } from "./frames";
import { fitting } from "./label";

export const ROW_PX = 18;
export const NARROWEST_PX = 0.5;
const FRAME_PX = ROW_PX - 1;
const TEXT_MARGIN_PX = 3;
const GAP_FROM_PX = 3;
const LABEL_FROM_PX = 27;
const DIMMED = 0.22;
const FONT = '11px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** Neighbours too narrow to be drawn one by one, drawn as one bar. */
export interface Bar {
  row: number;
  from: number;
  to: number;
  frames: number;
  parent: number;
}

/** A frame, or a stretch of it, over a width in px. */
export interface Strip {
  root: number;
  span: [number, number];
  width: number;
}
/** What can be seen of it: how far it is scrolled down, in px. */
export interface Scope extends Strip {
  height: number;
  top: number;
}

/** From the unit of widths to px. */
function scaleOf(frames: Frames, { root, span, width }: Strip): { origin: number; scale: number } {
  const whole = frames.width[root];
  const scale = whole > 0 ? width / (whole * (span[1] - span[0])) : 0;
  return { origin: frames.x[root] + whole * span[0], scale };
}

/** Calls back for each frame wide enough and each bar of narrower ones, in the rows from `first` to `last`. */
export function visit(
  frames: Frames,
  strip: Strip,
  [first, last]: [number, number],
  onFrame: (frame: number, x: number, wide: number, row: number) => void,
  onBar: (bar: Bar) => void,
): void {
  const { x, width: weight, self, depth, end, parent, sorted } = frames;
  const { origin, scale } = scaleOf(frames, strip);
  const { root } = strip;
  let bar = null as Bar | null;
  const flush = (): void => {
    if (bar && bar.to - bar.from >= NARROWEST_PX / 2) onBar(bar);
    bar = null;
  };
  for (let frame = root; frame < end[root];) {
    const row = depth[frame] - depth[root];
    const left = (x[frame] - origin) * scale;
    const wide = weight[frame] * scale;
    if (left + wide < 0) {
      frame = end[frame];
      continue;
    }
    if (left > strip.width) {
      frame = end[parent[frame]];
      continue;
    }
    if (wide >= NARROWEST_PX) {
      flush();
      if (row >= first) onFrame(frame, left, wide, row);
      frame = row >= last ? end[frame] : frame + 1;
      continue;
    }
    // Where the heaviest sibling stands first, the others are narrow too.
    const above = parent[frame];
    const next: number = sorted ? end[above] : end[frame];
    const to = sorted ? (x[above] + weight[above] - self[above] - origin) * scale : left + wide;
    const open = bar;
    if (row < first) flush();
    else if (open && open.row === row && open.parent === above) {
      open.to = to;
      open.frames += next - frame;
    } else {
      flush();
      bar = { row, from: left, to, frames: next - frame, parent: above };
    }
    frame = next;
  }
  flush();
}

/** Draws the picture, frames that do not match dimmed; returns the bars, so that the pointer finds them. */
export function draw(context: CanvasRenderingContext2D, look: Look, palette: Palette, scope: Scope, matches: Uint8Array | null): Bar[] {
  const { frames } = look;
  const { width, height, top } = scope;
  const bars: Bar[] = [];
  const rows: [number, number] = [Math.floor(top / ROW_PX), Math.floor((top + height) / ROW_PX)];
  // By colour, because to change it costs more than to fill a rectangle.
  const lit = new Batches();
  const dimmed = new Batches();
  const narrow = new Batches();
  const labels: Label[] = [];
  const onFrame = (frame: number, x: number, wide: number, row: number): void => {
    const isLit = !matches || matches[frames.name[frame]] === 1;
    // Only what is inside: a frame may be millions of px wide.
    const left = Math.max(0, x);
    const seen = Math.min(x + wide, width + 1) - left;
    const y = row * ROW_PX - top;
    (isLit ? lit : dimmed).add(look.colour(frame), left, y, wide > GAP_FROM_PX ? seen - 1 : seen);
    if (seen > LABEL_FROM_PX) labels.push({ frame, left, seen, y, isLit });
  };
  const neutral = cssColour("--line");
  visit(frames, scope, rows, onFrame, (bar) => {
    bars.push(bar);
    narrow.add(neutral, bar.from, bar.row * ROW_PX - top, Math.max(bar.to - bar.from, NARROWEST_PX));
  });
  context.clearRect(0, 0, width, height);
  context.globalAlpha = DIMMED;
  dimmed.fill(context);
  context.globalAlpha = 1;
  narrow.fill(context);
  lit.fill(context);
  if (matches) lit.outline(context, cssColour("--bad"));
  write(context, look, palette, labels);
  return bars;
}

/** Rectangles of one height, by colour. */
class Batches {
  private readonly places = new Map<string, number[]>();

  add(colour: string, x: number, y: number, width: number): void {
    const places = this.places.get(colour);
    if (places) places.push(x, y, width);
    else this.places.set(colour, [x, y, width]);
  }
  fill(context: CanvasRenderingContext2D): void {
    for (const [colour, places] of this.places) {
      context.fillStyle = colour;
      for (let at = 0; at < places.length; at += 3) context.fillRect(places[at], places[at + 1], places[at + 2], FRAME_PX);
    }
  }
  outline(context: CanvasRenderingContext2D, colour: string): void {
    context.strokeStyle = colour;
    context.lineWidth = 1;
    for (const places of this.places.values()) {
      for (let at = 0; at < places.length; at += 3) {
        context.strokeRect(places[at] + 0.5, places[at + 1] + 0.5, Math.max(1, places[at + 2] - 1), FRAME_PX - 1);
      }
    }
  }
}

interface Label {
  frame: number;
  left: number;
  seen: number;
  y: number;
  isLit: boolean;
}

function write(context: CanvasRenderingContext2D, look: Look, palette: Palette, labels: Label[]): void {
  context.font = FONT;
  context.textBaseline = "middle";
  const letterPx = context.measureText("m").width;
  const quiet = cssColour("--quiet");
  const inks = new Map<string, string>();
  for (const { frame, left, seen, y, isLit } of labels) {
    const colour = look.colour(frame);
    let ink = inks.get(colour);
    if (!ink) inks.set(colour, (ink = palette.ink(colour)));
    // A dimmed frame is nearly the page's own colour.
    context.fillStyle = isLit ? ink : quiet;
    const letters = Math.floor((seen - 2 * TEXT_MARGIN_PX) / letterPx);
    context.fillText(labelOf(look, frame, letters), left + TEXT_MARGIN_PX, y + ROW_PX / 2);
  }
}

/** As much of a frame's mark and name as fits. */
export function labelOf(look: Look, frame: number, letters: number): string {
  const mark = look.mark(frame);
  const name = fitting(nameOf(look.frames, frame), letters - mark.length);
  return name ? mark + name : mark.trim();
}

/** Where a frame is drawn, from the top of the whole picture; null where it is out of sight. */
export function boxOf(frames: Frames, strip: Strip, frame: number): { left: number; top: number; width: number; height: number } | null {
  const { root, width } = strip;
  if (frame < root || frame >= frames.end[root]) return null;
  const { origin, scale } = scaleOf(frames, strip);
  const left = Math.max(0, (frames.x[frame] - origin) * scale);
  const right = Math.min(width, (frames.x[frame] + frames.width[frame] - origin) * scale);
  if (right < left) return null;
  return { left, top: (frames.depth[frame] - frames.depth[root]) * ROW_PX, width: Math.max(2, right - left), height: FRAME_PX };
}

/** The frame at a point of the picture, -1 for none. */
export function frameUnder(frames: Frames, scope: Scope, px: number, py: number): number {
  const row = Math.floor((py + scope.top) / ROW_PX);
  const { origin, scale } = scaleOf(frames, scope);
  const at = origin + px / scale;
  const depth = frames.depth[scope.root] + row;
  let frame = scope.root;
  while (frame >= 0 && frames.depth[frame] < depth) frame = childAt(frames, frame, at);
  return frame;
}

function childAt(frames: Frames, frame: number, at: number): number {
  for (let child = frame + 1; child < frames.end[frame]; child = frames.end[child]) {
    if (at < frames.x[child]) return -1;
    if (at < frames.x[child] + frames.width[child]) return child;
  }
  return -1;
}
