// Everything that a drawing of the timeline depends on, and where in it an event is.
import type { App } from "../../app";
import type { StepWindow } from "../../selection";
import type { Colouring } from "./colouring";
import type { Moment } from "./model";
import { rowTop, type Layout, type Placed } from "./layout";
import type { PageColours } from "./page-colours";
import type { Found, Search } from "./search";
import type { Viewport } from "./viewport";

export interface Picture {
  readonly app: App;
  readonly viewport: Viewport;
  readonly layout: Layout;
  readonly colouring: Colouring;
  readonly page: PageColours;
  readonly search: Search;
  /** Per scene one flag per label that the legend switched off. */
  readonly hidden: Uint8Array[];
  /** Per scene its steps on the GPU, in its own time. */
  readonly steps: StepWindow[][];
  /** Per scene the moment that the timeline calls zero. */
  readonly origins: number[];
  /** Selected stretches on the timeline; while one is dragged, that one. */
  readonly windows: [number, number][];
  readonly event: Found | null;
  /** What belongs to the event: its launch, or the kernels it launched. */
  readonly linked: number[];
  /** Where notes stand, on the timeline. */
  readonly noteTimes: number[];
  /** The chosen moment of a counter. */
  readonly moment: Moment | null;
  readonly scrolled: number;
  readonly height: number;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
  placed: Placed;
}

/** Where an event is drawn; null where its lane is not shown. */
export function boxOf(picture: Picture, { scene, row }: Found): Box | null {
  const { app, viewport, layout } = picture;
  const { data } = app.scenes[scene];
  const placed = layout.byLane.get(`${scene}.${data.lane[row]}`);
  if (!placed) return null;
  const x = viewport.x(data.start[row] - picture.origins[scene]);
  const width = data.duration[row] / viewport.nsPerPixel;
  const laneRow = placed.open ? placed.lane.rowOf(row) : 0;
  const y = rowTop(layout, placed, laneRow, picture.scrolled);
  return { x, y, width: Math.max(2, width), height: placed.rowHeight, placed };
}
