// The look of a report's flame graph: kernels in the colours of their categories, callers pale.
import type { Palette } from "../../colours";
import { formatCount, formatPercent } from "../../format";
import type { Weight } from "./build";
import { shareOf, timeFacts, timeText, type Look } from "./facts";
import { toneOf, type Frames } from "./frames";
import { ROOT, type Tone } from "./tree";

const LEGEND_CATEGORIES = 8;

export function reportLook(frames: Frames, weight: Weight, palette: Palette): Look {
  const colours: string[] = [];
  const recolour = (): void => frames.tones.forEach((tone, place) => (colours[place] = toneColour(tone, palette)));
  recolour();
  return {
    frames,
    weightText: weight === "gpu" ? "GPU time" : "CPU time",
    countText: weight === "gpu" ? "kernels and copies" : "host calls",
    colour: (frame) => colours[frames.tone[frame]],
    recolour,
    facts: (frame) => timeFacts(frames, frame),
    mark: () => "",
    columns: ["total", "self", "% of all", "count", "kind"],
    cells: (frame) => [
      timeText(frames.width[frame]),
      timeText(frames.self[frame]),
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
