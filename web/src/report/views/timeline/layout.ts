// Where the lanes lie: GPU streams stay on top while the threads below them scroll.
import type { Lane } from "./lanes";

const GPU_ROW = 22;
const HOST_ROW = 15;
const STRIP = 18;
const PADDING = 3;
const HEADING = 20;
const THIN = 4;
const THIN_MARGIN = 2;
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
  padding: number;
  /** One of the narrow strips of a folded group, without a label of its own. */
  thin: boolean;
}

export interface Heading {
  text: string;
  /** Of a group that can be folded, "" else. */
  key: string;
  folded: boolean;
  pinned: boolean;
  top: number;
  height: number;
}

export interface Layout {
  placed: Placed[];
  /** The same by lane. */
  byLane: Map<string, Placed>;
  headings: Heading[];
  pinnedHeight: number;
  scrolledHeight: number;
}

export interface Group {
  /** A heading above the group's own. */
  above?: string;
  heading: string;
  /** As the address names a group that can be folded. */
  key?: string;
  /** Folded, a group is its heading with a narrow strip for each lane. */
  folded?: boolean;
  gpu: boolean;
  lanes: Lane[];
}

export function layOut(groups: Group[], isOpen: (lane: Lane) => boolean, available: number): Layout {
  const gpuHeight = heightOf(
    groups.filter(({ gpu }) => gpu),
    isOpen,
  );
  const pins = gpuHeight <= available * MOST_PINNED;
  const layout: Layout = { placed: [], byLane: new Map(), headings: [], pinnedHeight: 0, scrolledHeight: 0 };
  for (const group of groups) {
    const { above, heading, gpu, lanes, key = "", folded = false } = group;
    if (!lanes.length) continue;
    const pinned = gpu && pins;
    if (above) layout.headings.push({ text: above, key: "", folded: false, pinned, ...grow(layout, pinned, HEADING) });
    const extent = heading ? grow(layout, pinned, headingHeight(group)) : null;
    if (extent) layout.headings.push({ text: heading, key, folded, pinned, ...extent });
    lanes.forEach((lane, number) => {
      if (folded && extent) {
        const top = extent.top + THIN_MARGIN + number * THIN;
        layout.placed.push({ lane, pinned, open: false, rows: 1, rowHeight: THIN, height: THIN, padding: 0, thin: true, top });
        return;
      }
      const size = sizeOf(lane, isOpen(lane));
      layout.placed.push({ lane, pinned, thin: false, ...size, ...grow(layout, pinned, size.height) });
    });
  }
  for (const entry of layout.placed) layout.byLane.set(`${entry.lane.sceneNumber}.${entry.lane.source.number}`, entry);
  return layout;
}

function headingHeight({ folded, lanes }: Group): number {
  return folded ? Math.max(HEADING, lanes.length * THIN + 2 * THIN_MARGIN) : HEADING;
}

function grow(layout: Layout, pinned: boolean, height: number): { top: number; height: number } {
  const top = pinned ? layout.pinnedHeight : layout.scrolledHeight;
  if (pinned) layout.pinnedHeight += height;
  else layout.scrolledHeight += height;
  return { top, height };
}

function heightOf(groups: Group[], isOpen: (lane: Lane) => boolean): number {
  const lanes = groups.filter(({ folded }) => !folded).flatMap((group) => group.lanes);
  const headings = groups.filter(({ heading, lanes: own }) => heading && own.length);
  const above = headings.reduce((sum, group) => sum + headingHeight(group), 0);
  return above + lanes.reduce((sum, lane) => sum + sizeOf(lane, isOpen(lane)).height, 0);
}

function sizeOf(lane: Lane, open: boolean): Pick<Placed, "open" | "height" | "rowHeight" | "rows" | "padding"> {
  if (!open) return { open, rows: 1, rowHeight: STRIP - 2 * PADDING, height: STRIP, padding: PADDING };
  const rowHeight = lane.isGpu ? GPU_ROW : HOST_ROW;
  return { open, rows: lane.rows, rowHeight, height: Math.max(STRIP, lane.rows * rowHeight + 2 * PADDING), padding: PADDING };
}

/** The top of a lane's row in the picture, for a scroll position. */
export function rowTop(layout: Layout, placed: Placed, row: number, scrolled: number): number {
  return laneTop(layout, placed, scrolled) + placed.padding + row * placed.rowHeight;
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
    const row = Math.floor((y - top - placed.padding) / placed.rowHeight);
    return { placed, row: Math.min(placed.rows - 1, Math.max(0, row)) };
  }
  return null;
}
