// Where the lanes lie: GPU streams stay on top while the threads below them scroll.
import type { Lane } from "./lanes";

const GPU_ROW = 22;
const HOST_ROW = 15;
const STRIP = 18;
const PADDING = 3;
const HEADING = 20;
const MOST_PINNED = 0.5; // of the height: beyond it everything scrolls

export interface Placed {
  lane: Lane;
  open: boolean;
  pinned: boolean;
  /** From the top of its part: the pinned one or the scrolled one. */
  top: number;
  height: number;
  rowHeight: number;
  rows: number;
}

export interface Heading {
  text: string;
  pinned: boolean;
  top: number;
  height: number;
}

export interface Layout {
  placed: Placed[];
  headings: Heading[];
  pinnedHeight: number;
  scrolledHeight: number;
}

export interface Group {
  heading: string;
  gpu: boolean;
  lanes: Lane[];
}

export function layOut(groups: Group[], isOpen: (lane: Lane) => boolean, available: number): Layout {
  const gpuHeight = heightOf(groups.filter(({ gpu }) => gpu), isOpen);
  const pins = gpuHeight <= available * MOST_PINNED;
  const layout: Layout = { placed: [], headings: [], pinnedHeight: 0, scrolledHeight: 0 };
  for (const { heading, gpu, lanes } of groups) {
    if (!lanes.length) continue;
    const pinned = gpu && pins;
    if (heading) layout.headings.push({ text: heading, pinned, ...grow(layout, pinned, HEADING) });
    for (const lane of lanes) {
      const size = sizeOf(lane, isOpen(lane));
      layout.placed.push({ lane, pinned, ...size, ...grow(layout, pinned, size.height) });
    }
  }
  return layout;
}

function grow(layout: Layout, pinned: boolean, height: number): { top: number; height: number } {
  const top = pinned ? layout.pinnedHeight : layout.scrolledHeight;
  if (pinned) layout.pinnedHeight += height;
  else layout.scrolledHeight += height;
  return { top, height };
}

function heightOf(groups: Group[], isOpen: (lane: Lane) => boolean): number {
  const lanes = groups.flatMap((group) => group.lanes);
  const headings = groups.filter(({ heading, lanes: own }) => heading && own.length).length;
  return headings * HEADING + lanes.reduce((sum, lane) => sum + sizeOf(lane, isOpen(lane)).height, 0);
}

function sizeOf(lane: Lane, open: boolean): Pick<Placed, "open" | "height" | "rowHeight" | "rows"> {
  if (!open) return { open, rows: 1, rowHeight: STRIP - 2 * PADDING, height: STRIP };
  const rowHeight = lane.isGpu ? GPU_ROW : HOST_ROW;
  return { open, rows: lane.rows, rowHeight, height: Math.max(STRIP, lane.rows * rowHeight + 2 * PADDING) };
}

/** The top of a lane's row in the picture, for a scroll position. */
export function rowTop(layout: Layout, placed: Placed, row: number, scrolled: number): number {
  return laneTop(layout, placed, scrolled) + PADDING + row * placed.rowHeight;
}

export function laneTop(layout: Layout, { pinned, top }: { pinned: boolean; top: number }, scrolled: number): number {
  return pinned ? top : layout.pinnedHeight + top - scrolled;
}

/** The lane and row at a height of the picture. */
export function laneAt(layout: Layout, y: number, scrolled: number): { placed: Placed; row: number } | null {
  const inPinned = y < layout.pinnedHeight;
  for (const placed of layout.placed) {
    if (placed.pinned !== inPinned) continue;
    const top = laneTop(layout, placed, scrolled);
    if (y < top || y >= top + placed.height) continue;
    const row = Math.floor((y - top - PADDING) / placed.rowHeight);
    return { placed, row: Math.min(placed.rows - 1, Math.max(0, row)) };
  }
  return null;
}
