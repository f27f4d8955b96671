// Where the lanes lie: GPU streams stay on top while the threads below them scroll.
import { Counter } from "./counters";
import type { Lane } from "./lanes";

const GPU_ROW = 22;
const HOST_ROW = 15;
const STRIP = 18;
const PADDING = 3;
const HEADING = 20;
const COUNTER = 78;
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

export interface PlacedCounter {
  counter: Counter;
  open: boolean;
  pinned: boolean;
  top: number;
  height: number;
}

export interface Layout {
  placed: Placed[];
  counters: PlacedCounter[];
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
  /** Whether its tracks stay on top; null: those on the GPU, and counters. */
  gpu: boolean | null;
  lanes: (Lane | Counter)[];
}

export interface Choices {
  isOpen(track: Lane | Counter): boolean;
  /** What the reader chose, null where nothing. */
  isPinned(track: Lane | Counter): boolean | null;
}

/** Where tracks leave part of the `least` height empty, counters are as much taller. */
export function layOut(groups: Group[], choices: Choices, available: number, least = 0): Layout {
  const layout = placeAll(groups, choices, available, COUNTER);
  const open = layout.counters.filter((placed) => placed.open).length;
  const free = least - layout.pinnedHeight - layout.scrolledHeight;
  return open && free > 0 ? placeAll(groups, choices, available, COUNTER + Math.floor(free / open)) : layout;
}

function placeAll(groups: Group[], choices: Choices, available: number, counterHeight: number): Layout {
  const staysOnTop = pinsOf(groups, choices, available);
  const layout: Layout = { placed: [], counters: [], byLane: new Map(), headings: [], pinnedHeight: 0, scrolledHeight: 0 };
  for (const group of groups) {
    const { above, heading, gpu, lanes, key = "", folded = false } = group;
    if (!lanes.length) continue;
    const pinned = gpu !== false && staysOnTop(group, lanes[0]);
    if (above) layout.headings.push({ text: above, key: "", folded: false, pinned, ...grow(layout, pinned, HEADING) });
    const extent = heading ? grow(layout, pinned, headingHeight(group)) : null;
    if (extent) layout.headings.push({ text: heading, key, folded, pinned, ...extent });
    lanes.forEach((lane, number) => {
      if (folded && extent && !(lane instanceof Counter)) {
        const top = extent.top + THIN_MARGIN + number * THIN;
        layout.placed.push({ lane, pinned, open: false, rows: 1, rowHeight: THIN, height: THIN, padding: 0, thin: true, top });
        return;
      }
      place(layout, lane, choices.isOpen(lane), staysOnTop(group, lane), counterHeight);
    });
  }
  for (const entry of layout.placed) layout.byLane.set(`${entry.lane.sceneNumber}.${entry.lane.source.number}`, entry);
  return layout;
}

function place(layout: Layout, track: Lane | Counter, open: boolean, pinned: boolean, counterHeight: number): void {
  if (track instanceof Counter) {
    layout.counters.push({ counter: track, open, pinned, ...grow(layout, pinned, open ? counterHeight : STRIP) });
  } else {
    const size = sizeOf(track, open);
    layout.placed.push({ lane: track, pinned, thin: false, ...size, ...grow(layout, pinned, size.height) });
  }
}

/** GPU lanes and counters stay on top as long as they leave half of the height; counters give way first. */
function pinsOf(groups: Group[], { isOpen, isPinned }: Choices, available: number): (group: Group, track: Lane | Counter) => boolean {
  const isUsual = ({ gpu }: Group, track: Lane | Counter): boolean => gpu ?? (track instanceof Counter || track.onGpu);
  const height = (isCounted: (track: Lane | Counter) => boolean): number =>
    groups.reduce((sum, group) => {
      const tracks = group.lanes.filter((track) => !group.folded && isUsual(group, track) && isCounted(track));
      const head = tracks.length && group.heading ? headingHeight(group) : 0;
      return sum + head + tracks.reduce((all, track) => all + heightOf(track, isOpen(track)), 0);
    }, 0);
  const most = available * MOST_PINNED;
  const lanes = height((track) => !(track instanceof Counter)) <= most;
  const counters = height(() => true) <= most;
  return (group, track) => isPinned(track) ?? (isUsual(group, track) && (track instanceof Counter ? counters : lanes));
}

function heightOf(track: Lane | Counter, open: boolean): number {
  return track instanceof Counter ? (open ? COUNTER : STRIP) : sizeOf(track, open).height;
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

/** The counter at a height of the picture. */
export function counterAt(layout: Layout, y: number, scrolled: number): PlacedCounter | null {
  const isHere = (placed: PlacedCounter): boolean => {
    const top = laneTop(layout, placed, scrolled);
    return placed.pinned === y < layout.pinnedHeight && y >= top && y < top + placed.height;
  };
  return layout.counters.find(isHere) ?? null;
}
