// The critical path over the lanes, where it was recorded: a bar along what is on it, lines from lane to lane.
import { NONE } from "../../data/scene";
import { lowerBound } from "./cover";
import { rowTop, type Placed } from "./layout";
import type { Picture } from "./picture";
import type { Surface } from "./surface";

const BAR = 3;
const LEAST_FRAMED = 6; // pixels: narrower events have no frame of their own
const ON_HOST = ["host", "launch"];
const OUTSIDE = 8; // pixels beyond the view at which everything ends

/** A stretch of a lane that the path follows without leaving it, in pixels. */
interface Run {
  placed: Placed;
  from: number;
  to: number;
  y: number;
}
/** A GPU event on the path that is wide enough for a frame. */
interface Frame extends Run {
  height: number;
}

export function paintPath(surface: Surface, picture: Picture): void {
  if (!picture.app.path || !picture.app.store.get("path")) return;
  const { layout, viewport, height, page } = picture;
  const { runs, frames } = inView(picture);
  for (const pinned of [true, false]) {
    const [top, bottom] = pinned ? [0, Math.min(height, layout.pinnedHeight)] : [layout.pinnedHeight, height];
    surface.clipped(0, top, viewport.width, bottom - top, () => {
      for (const { placed, from, to, y, height: tall } of frames) {
        if (placed.pinned === pinned) surface.outline(from + 1, y + 1, to - from - 3, tall - 3, page.path);
      }
      for (const { placed, from, to, y } of runs) {
        if (placed.pinned === pinned) surface.rect(from, y, Math.max(1, to - from), BAR, page.path);
      }
    });
  }
  surface.clipped(0, 0, viewport.width, height, () => {
    for (let i = 1; i < runs.length; i++) connect(surface, picture, runs[i - 1], runs[i]);
  });
}

/** What to draw. Segments of one lane that follow each other closer than a pixel are one run. */
function inView(picture: Picture): { runs: Run[]; frames: Frame[] } {
  const { app, viewport, layout, scrolled } = picture;
  const { kind, row, from, to, kinds } = app.path!;
  const names = Object.keys(kinds);
  const runs: Run[] = [];
  const frames: Frame[] = [];
  // From a little before the view to the first beyond it, so that lines into and out of the view are drawn.
  for (let i = Math.max(0, lowerBound(to, viewport.from) - 4); i < kind.length; i++) {
    const isWork = names[kind[i]] === "work";
    const placed = row[i] === NONE ? undefined : layout.byLane.get(`0.${app.scenes[0].data.lane[row[i]]}`);
    if (!placed || !(isWork || ON_HOST.includes(names[kind[i]]))) continue;
    const top = rowTop(layout, placed, isWork && placed.open ? placed.lane.rowOf(row[i]) : 0, scrolled);
    const run = {
      placed,
      from: pixel(picture, from[i]),
      to: pixel(picture, to[i]),
      // At the foot of kernels, where it hides no name, and above what threads do.
      y: isWork ? top + placed.rowHeight - BAR : top - BAR,
    };
    if (isWork && run.to - run.from >= LEAST_FRAMED) frames.push({ ...run, y: top, height: placed.rowHeight });
    const last = runs[runs.length - 1];
    if (last?.placed === placed && last.y === run.y && run.from - last.to <= 1) last.to = Math.max(last.to, run.to);
    else runs.push(run);
    if (from[i] > viewport.to) break;
  }
  return { runs, frames };
}

function pixel({ viewport }: Picture, time: number): number {
  return Math.min(viewport.width + OUTSIDE, Math.max(-OUTSIDE, viewport.x(time)));
}

/** An end that is scrolled out of sight is drawn at the edge it is beyond. */
function connect(surface: Surface, { viewport, height, page, layout }: Picture, before: Run, after: Run): void {
  if (before.to > viewport.width || after.from < 0) return;
  const y = (run: Run): number => Math.min(height - 1, Math.max((run.placed.pinned ? 0 : layout.pinnedHeight) + 1, run.y + BAR / 2));
  surface.line(before.to, y(before), after.from, y(after), page.path, 1.5);
}
