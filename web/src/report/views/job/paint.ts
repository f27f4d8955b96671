// Draws the lanes of ranks: computation, and communication with its waits light and its transfers dark.
import { mixed } from "../../../shared/colours";
import type { Job, JobRank } from "../../data/job";
import type { Palette } from "../../palette";
import type { Union } from "../../data/intervals";
import { Cover, lowerBound } from "../timeline/cover";
import type { PageColours } from "../timeline/page-colours";
import type { Surface } from "../timeline/surface";
import { fitted } from "../timeline/text";
import type { Viewport } from "../timeline/viewport";
import { communicationBox, computationBox, type PlacedRank } from "./lanes";

const SHADES = 12;
const COMPUTE = { light: "#4a78b0", dark: "#7aa5d8" };
const LEAST_TEXT = 26;

export interface JobColours {
  page: PageColours;
  compute: string;
  transfer: string;
  wait: string;
  unknown: string;
}

/** Computation is blue, transfers have the colour of communication, waits a pale tone of it. */
export function jobColours(page: PageColours, palette: Palette, dark: boolean): JobColours {
  const transfer = palette.category("Communication");
  return {
    page,
    compute: dark ? COMPUTE.dark : COMPUTE.light,
    transfer,
    wait: mixed(transfer, page.background, 0.66),
    unknown: mixed(transfer, page.quiet, 0.6),
  };
}

interface Covers {
  compute: Cover;
  waits: Cover;
  transfers: Cover;
}
const covers = new WeakMap<JobRank, Covers>();

function coversOf(rank: JobRank): Covers {
  let own = covers.get(rank);
  if (!own) {
    own = { compute: new Cover(rank.compute), waits: new Cover(rank.waits), transfers: new Cover(rank.transfers) };
    covers.set(rank, own);
  }
  return own;
}

export function paintRank(surface: Surface, job: Job, place: PlacedRank, viewport: Viewport, colours: JobColours, offset: number): void {
  const { rank } = place;
  const { page } = colours;
  surface.rect(0, place.top - offset + place.height - 1, viewport.width, 1, page.line);
  for (const { from } of rank.steps) {
    const x = Math.round(viewport.x(from));
    if (x >= 0 && x < viewport.width) surface.rect(x, place.top - offset, 1, place.height, page.quiet);
  }
  const [computeTop, computeHeight] = computationBox(place);
  paintUnion(surface, rank.compute, coversOf(rank).compute, viewport, computeTop - offset, computeHeight, colours.compute, page.background);
  const [top, height] = communicationBox(place);
  const [first, last] = callsInView(job, rank, viewport);
  if (last - first > viewport.width) paintShares(surface, coversOf(rank), viewport, top - offset, height, colours);
  else for (let call = first; call < last; call++) paintCall(surface, job, call, viewport, top - offset, height, colours);
}

/** Rows of a rank's calls that may be in view: they are in order of their starts, not of their ends. */
function callsInView(job: Job, rank: JobRank, viewport: Viewport): [number, number] {
  const { start } = job.data;
  const last = lowerBound(start, viewport.to, rank.first, rank.last);
  let first = rank.first;
  if (last - rank.first > viewport.width) first = lowerBound(start, viewport.from - longestOf(job, rank), rank.first, last);
  return [first, last];
}

const longest = new WeakMap<JobRank, number>();
function longestOf(job: Job, rank: JobRank): number {
  let length = longest.get(rank);
  if (length === undefined) {
    length = job.data.length.subarray(rank.first, rank.last).reduce((most, each) => Math.max(most, each), 0);
    longest.set(rank, length);
  }
  return length;
}

function paintCall(surface: Surface, job: Job, call: number, viewport: Viewport, top: number, height: number, colours: JobColours): void {
  const { start } = job.data;
  const end = job.end(call);
  if (end < viewport.from) return;
  const [left, right] = [Math.max(-2, viewport.x(start[call])), Math.min(viewport.width + 2, viewport.x(end))];
  const middle = Math.min(right, Math.max(left, viewport.x(start[call] + job.wait(call))));
  const isKnown = job.data.wait[call] >= 0;
  // At least a pixel, and a hairline between neighbours that have room for it.
  const width = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
  surface.rect(left, top, width, height, isKnown ? colours.transfer : colours.unknown);
  if (middle > left) surface.rect(left, top, Math.min(width, middle - left), height, colours.wait);
  if (right - middle > LEAST_TEXT && height > 10) {
    const text = fitted(job.kind(call), right - middle - 6);
    if (text) surface.text(middle + 3, top + height / 2, text, colours.page.background);
  }
}

function paintUnion(
  surface: Surface,
  { starts, ends }: Union,
  cover: Cover,
  viewport: Viewport,
  top: number,
  height: number,
  colour: string,
  background: string,
): void {
  const [first, last] = [lowerBound(ends, viewport.from), lowerBound(starts, viewport.to)];
  if (last - first > viewport.width) {
    for (let x = 0; x < viewport.width; x++) {
      const share = cover.busy(viewport.time(x), viewport.time(x + 1)) / viewport.nsPerPixel;
      if (share > 0) surface.rect(x, top, 1, height, shade(background, colour, share));
    }
    return;
  }
  for (let i = first; i < last; i++) {
    const [left, right] = [Math.max(-2, viewport.x(starts[i])), Math.min(viewport.width + 2, viewport.x(ends[i]))];
    surface.rect(left, top, Math.max(1, right - left), height, colour);
  }
}

/** More calls than pixels: each column in the mixture of what it covers. */
function paintShares(surface: Surface, own: Covers, viewport: Viewport, top: number, height: number, colours: JobColours): void {
  for (let x = 0; x < viewport.width; x++) {
    const [from, to] = [viewport.time(x), viewport.time(x + 1)];
    const [waits, transfers] = [own.waits.busy(from, to) / (to - from), own.transfers.busy(from, to) / (to - from)];
    const all = Math.min(1, waits + transfers);
    if (!all) continue;
    const colour = shade(colours.wait, colours.transfer, transfers / (waits + transfers));
    surface.rect(x, top, 1, height, shade(colours.page.background, colour, Math.max(0.15, all)));
  }
}

const shades = new Map<string, string>();
/** A few tones are enough, and each is mixed once. */
function shade(from: string, to: string, share: number): string {
  const step = Math.round(Math.min(1, share) * SHADES);
  const key = `${from}${to}${step}`;
  let colour = shades.get(key);
  if (!colour) shades.set(key, (colour = mixed(from, to, step / SHADES)));
  return colour;
}

/** Lines through the starts and the ends of one collective on all its ranks, and a frame around each of its calls. */
export function paintMatch(
  surface: Surface,
  job: Job,
  calls: number[],
  places: PlacedRank[],
  viewport: Viewport,
  { page }: JobColours,
  offset: number,
): void {
  const boxes = places.flatMap((place) =>
    calls
      .filter((call) => call >= place.rank.first && call < place.rank.last)
      .map((call) => {
        const [top, height] = communicationBox(place);
        return { call, top: top - offset, height, left: viewport.x(job.data.start[call]), right: viewport.x(job.end(call)) };
      }),
  );
  const last = job.lastOf(calls);
  boxes.forEach((box, at) => {
    const next = boxes[at + 1];
    if (next) {
      surface.line(box.left, box.top + box.height, next.left, next.top, page.path, 1.5);
      surface.line(box.right, box.top + box.height, next.right, next.top, page.path, 1.5);
    }
    surface.outline(box.left, box.top, Math.max(2, box.right - box.left), box.height, box.call === last ? page.path : page.text);
  });
}
