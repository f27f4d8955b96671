// What is drawn over the lanes: step boundaries, the selected time, the selected event and its links.
import { laneTop } from "./layout";
import { paintPath } from "./path";
import { boxOf, type Box, type Picture } from "./picture";
import type { Surface } from "./surface";

const MOST_ARROWS = 60;
const LEAST_APART = 12;

export function paintMarks(surface: Surface, picture: Picture): void {
  paintSteps(surface, picture);
  for (const [from, to] of picture.windows) paintWindow(surface, picture, from, to);
  picture.app.scenes.forEach((scene, number) => scene.isInside && paintArrows(surface, picture, number));
  paintPath(surface, picture);
  if (picture.event) paintEvent(surface, picture);
}

/** On GPU lanes a step begins with its first kernel, on threads with its own mark. */
function paintSteps(surface: Surface, picture: Picture): void {
  const { layout, viewport, scrolled, height, app, origins, page } = picture;
  for (const placed of layout.placed) {
    const { sceneNumber: scene } = placed.lane;
    const begins = placed.lane.onGpu ? picture.steps[scene].map(({ from }) => from) : app.scenes[scene].steps.map(({ start }) => start);
    const top = Math.max(laneTop(layout, placed, scrolled), placed.pinned ? 0 : layout.pinnedHeight);
    const bottom = Math.min(height, laneTop(layout, placed, scrolled) + placed.height);
    if (bottom <= top) continue;
    // Lines closer than this would hide what they divide.
    const apart = (begins[begins.length - 1] - begins[0]) / Math.max(1, begins.length - 1) / viewport.nsPerPixel;
    for (const begin of begins.length > 1 && apart < LEAST_APART ? [] : begins) {
      const x = Math.round(viewport.x(begin - origins[scene]));
      if (x >= 0 && x <= viewport.width) surface.rect(x, top, 1, bottom - top, page.quiet);
    }
  }
}

function paintWindow(surface: Surface, { viewport, height, page }: Picture, from: number, to: number): void {
  const left = Math.max(-2, viewport.x(from));
  const right = Math.min(viewport.width + 2, viewport.x(to));
  if (right <= left) return;
  surface.rect(left, 0, right - left, height, page.shade);
  surface.rect(left, 0, 1, height, page.accent);
  surface.rect(right - 1, 0, 1, height, page.accent);
}

function paintEvent(surface: Surface, picture: Picture): void {
  const event = picture.event!;
  const own = boxOf(picture, event);
  if (!own) return;
  const { accent, text } = picture.page;
  const isGpu = picture.app.scenes[event.scene].gpuEvent[event.row] >= 0;
  const { isInside } = picture.app.scenes[event.scene];
  const arrows = picture.linked.length <= MOST_ARROWS && !isInside && (isGpu || isLaunch(picture));
  for (const row of picture.linked) {
    const other = boxOf(picture, { scene: event.scene, row });
    if (!other || !crosses(picture, own, other)) continue;
    paintBox(surface, picture, other, accent);
    if (arrows) paintArrow(surface, picture, isGpu ? other : own, isGpu ? own : other, accent);
  }
  paintBox(surface, picture, own, text);
}

/** Arrows between warps, where so few are in view that they can be followed. */
function paintArrows(surface: Surface, picture: Picture, scene: number): void {
  const { arrowFrom, arrowTo, start } = picture.app.scenes[scene].data;
  const { viewport, origins } = picture;
  const [first, last] = [viewport.from + origins[scene], viewport.to + origins[scene]];
  const seen: [Box, Box][] = [];
  for (let arrow = 0; arrow < arrowFrom.length && seen.length <= MOST_ARROWS; arrow++) {
    const [left, right] = [start[arrowFrom[arrow]], start[arrowTo[arrow]]];
    if (Math.max(left, right) < first || Math.min(left, right) > last) continue;
    const from = boxOf(picture, { scene, row: arrowFrom[arrow] });
    const to = boxOf(picture, { scene, row: arrowTo[arrow] });
    if (from && to && !from.placed.thin) seen.push([from, to]);
  }
  if (seen.length <= MOST_ARROWS) for (const [from, to] of seen) paintArrow(surface, picture, from, to, picture.page.quiet);
}

function isLaunch({ app, event }: Picture): boolean {
  return app.scenes[event!.scene].launchedBy(event!.row).length > 0;
}

function crosses({ viewport }: Picture, a: Box, b: Box): boolean {
  return Math.max(a.x + a.width, b.x + b.width) >= 0 && Math.min(a.x, b.x) <= viewport.width;
}

function paintBox(surface: Surface, picture: Picture, box: Box, colour: string): void {
  const { layout, viewport, height } = picture;
  if (box.x + box.width < 0 || box.x > viewport.width) return;
  const top = box.placed.pinned ? 0 : layout.pinnedHeight;
  const left = Math.max(-4, box.x);
  const right = Math.min(viewport.width + 4, box.x + box.width);
  surface.clipped(0, top, viewport.width, height - top, () => surface.outline(left, box.y, right - left, box.height - 1, colour));
}

/** An end that is scrolled out of sight is drawn at the edge it is beyond. */
function paintArrow(surface: Surface, picture: Picture, launch: Box, kernel: Box, colour: string): void {
  const { viewport, height } = picture;
  const y = (box: Box): number => {
    const top = box.placed.pinned ? 0 : picture.layout.pinnedHeight;
    return Math.min(height - 2, Math.max(top + 2, box.y + box.height / 2));
  };
  surface.clipped(0, 0, viewport.width, height, () => surface.arrow(launch.x + launch.width / 2, y(launch), kernel.x, y(kernel), colour));
}
