// The look of a profile's flame graph: kernels in the colours of their categories, callers pale.
import type { Palette } from "../../palette";
import { formatCount, formatPercent } from "../../../shared/format";
import { amountFacts, shareOf, type Look } from "./facts";
import { toneOf, type Frames } from "./frames";
import { ROOT, type Tone } from "./tree";

const LEGEND_CATEGORIES = 8;

/** What widths are and what is counted, in words, and how a width is written. */
export interface Measure {
  weightText: string;
  countText: string;
  text(width: number): string;
}

export function treeLook(frames: Frames, { weightText, countText, text }: Measure, palette: Palette): Look {
  const colours: string[] = [];
  const recolour = (): void => frames.tones.forEach((tone, index) => (colours[index] = toneColour(tone, palette)));
  recolour();
  return {
    frames,
    weightText,
    countText,
    colour: (frame) => colours[frames.tone[frame]],
    recolour,
    facts: (frame) => amountFacts(frames, frame, text),
    mark: () => "",
    columns: ["total", "self", "% of all", "count", "kind"],
    cells: (frame) => [
      text(frames.width[frame]),
      text(frames.self[frame]),
      formatPercent(shareOf(frames, frame, ROOT)),
      formatCount(frames.count[frame]),
      toneOf(frames, frame).category || toneOf(frames, frame).kind,
    ],
    legend: () => legendOf(frames, colours),
  };
}

function toneColour({ kind, category }: Tone, palette: Palette): string {
  return category ? palette.category(category) : palette.kind(kind);
}

/** Kinds of callers, then the categories with the most time. */
function legendOf(frames: Frames, colours: string[]): [string, string][] {
  const ns = new Float64Array(frames.tones.length);
  const used = new Uint8Array(frames.tones.length);
  for (let frame = 1; frame < frames.size; frame++) {
    used[frames.tone[frame]] = 1;
    ns[frames.tone[frame]] += frames.width[frame];
  }
  const tones = frames.tones.map(({ kind, category }, tone) => ({ kind, category, tone })).filter(({ tone }) => used[tone]);
  const categories = tones.filter(({ category }) => category).sort((a, b) => ns[b.tone] - ns[a.tone]);
  const callers = tones.filter(({ category }) => !category);
  const shown: [string, string][] = [...callers, ...categories.slice(0, LEGEND_CATEGORIES)].map(({ kind, category, tone }) => [
    category || kind,
    colours[tone],
  ]);
  const more = categories.length - LEGEND_CATEGORIES;
  return more > 0 ? [...shown, [`and ${more} more`, ""]] : shown;
}
