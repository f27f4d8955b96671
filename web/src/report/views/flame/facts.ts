// What a chart knows about a frame in words: for the tooltip, the line below the chart, the list and the files.
import type { Frames } from "./frames";
import { nameOf, toneOf } from "./frames";
import { formatCount, formatNs, formatPercent } from "../../../shared/format";
import type { Fact } from "../../../shared/tip";
import { ROOT } from "./tree";

/** A frame's colour, words and width for a chart; a report and a comparison each have their own. */
export interface Look {
  frames: Frames;
  /** What widths are, for people: "GPU time". */
  weightText: string;
  /** What is counted: "kernels and copies". */
  countText: string;
  colour(frame: number): string;
  /** After a change of theme. */
  recolour(): void;
  facts(frame: number): Fact[];
  /** What stands before the name on the frame. */
  mark(frame: number): string;
  /** The columns of the list beside the name, and a frame's cells in them. */
  columns: string[];
  cells(frame: number): string[];
  /** What the colours mean. */
  legend(): [text: string, colour: string][];
}

export function timeText(ns: number): string {
  return ns ? formatNs(ns) : "0";
}

export function shareOf(frames: Frames, frame: number, of: number): number {
  return frames.width[of] > 0 ? (100 * frames.width[frame]) / frames.width[of] : 0;
}

function kindText(frames: Frames, frame: number): string {
  const { kind, category } = toneOf(frames, frame);
  return category ? `${kind} · ${category}` : kind;
}

export function amountFacts(frames: Frames, frame: number, text: (width: number) => string): Fact[] {
  const parent = frames.parent[frame];
  const facts: Fact[] = [
    ["total", text(frames.width[frame])],
    ["self", text(frames.self[frame])],
    ["of all", formatPercent(shareOf(frames, frame, ROOT))],
  ];
  if (parent > ROOT) facts.push(["of the frame above", formatPercent(shareOf(frames, frame, parent))]);
  facts.push(["count", formatCount(frames.count[frame])], ["kind", kindText(frames, frame)]);
  return facts;
}

/** All facts in one line. */
export function sentence(look: Look, frame: number): string {
  return look
    .facts(frame)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

/** Frames whose names hold the text, per name; null where nothing is searched for. */
export function matchesOf(frames: Frames, query: string): Uint8Array | null {
  const text = query.trim().toLowerCase();
  if (!text) return null;
  return Uint8Array.from(frames.names, (name) => Number(name.toLowerCase().includes(text)));
}

/** Weight and number of the frames that match below one; a match inside a match is not counted twice. */
export function matchedBelow(frames: Frames, matches: Uint8Array, root: number): { weight: number; count: number } {
  let weight = 0;
  let count = 0;
  let counted = root;
  for (let frame = root; frame < frames.end[root]; frame++) {
    if (!matches[frames.name[frame]]) continue;
    count++;
    if (frame < counted) continue;
    weight += frames.width[frame];
    counted = frames.end[frame];
  }
  return { weight, count };
}

export function fullName(look: Look, frame: number): string {
  return look.mark(frame) + nameOf(look.frames, frame);
}
