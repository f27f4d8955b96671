// Draws the counters: stacked areas in steps, or one area per series over each other. There are none where two traces are
// compared, so that their time is the timeline's.
import { laneTop, type PlacedCounter } from "./layout";
import { runsOfPixels, type Counter, type Mark } from "./counters";
import type { Picture } from "./picture";
import type { Surface } from "./surface";
import { textWidth } from "./text";

const LABEL = 14; // pixels that a line of text takes
const HEADROOM = 0.92; // of the height that the largest value takes

export function paintCounter(surface: Surface, picture: Picture, placed: PlacedCounter): void {
  const { viewport, layout, scrolled, page } = picture;
  const top = laneTop(layout, placed, scrolled);
  const { counter } = placed;
  const runs = runsOfPixels(counter, viewport.from, viewport.nsPerPixel, viewport.width);
  const bottom = top + placed.height - 1;
  const scale = ((placed.height - 2) * HEADROOM) / counter.most;
  const below = new Float64Array(runs.length);
  for (const { colour, values } of counter.series) {
    runs.forEach(([left, right, row], at) => {
      const tall = (values[row] || 0) * scale;
      if (tall > 0) surface.rect(left, bottom - below[at] - tall, right - left, tall, colour);
      if (counter.stacked) below[at] += tall;
    });
  }
  if (!placed.open) return;
  if (counter.line) paintLine(surface, counter.line.values, runs, bottom, scale, page.text);
  const peak = bottom - counter.total[counter.peak] * scale;
  paintPeak(surface, picture, counter, [top, bottom], peak);
  counter.marks.forEach((mark) => paintMark(surface, picture, mark, [top, bottom], peak + LABEL + 2));
  paintMoment(surface, picture, placed, top);
}

function paintLine(
  surface: Surface,
  values: Float64Array,
  runs: [number, number, number][],
  bottom: number,
  scale: number,
  colour: string,
): void {
  for (const [left, right, row] of runs) {
    if (values[row] > 0) surface.rect(left, bottom - values[row] * scale, right - left, 1, colour);
  }
}

/** The largest value, named at its height: a line over it may be of something else. */
function paintPeak(surface: Surface, picture: Picture, counter: Counter, [top, bottom]: [number, number], y: number): void {
  const { viewport, page } = picture;
  const x = viewport.x(counter.starts[counter.peak]);
  if (x < 0 || x > viewport.width || counter.starts.length < 2) return;
  const text = `peak ${counter.shown(counter.total[counter.peak])}`;
  const width = textWidth(text) + 6;
  const left = Math.min(viewport.width - width, x + 4);
  const middle = Math.max(top + LABEL / 2 + 1, Math.min(bottom - LABEL / 2, y));
  surface.rect(Math.round(x), y - 3, 1, bottom - y + 3, page.text);
  surface.rect(left - 2, middle - LABEL / 2, width, LABEL, page.panel);
  surface.text(left, middle, text, page.text);
}

/** An allocation that failed, under the name of the peak, to the left of its line where there is no room on the right. */
function paintMark(surface: Surface, picture: Picture, { time, text }: Mark, [top, bottom]: [number, number], y: number): void {
  const { viewport, page } = picture;
  const x = Math.round(viewport.x(time));
  if (x < 0 || x > viewport.width) return;
  const width = textWidth(text) + 6;
  const left = x + 4 + width <= viewport.width ? x + 4 : Math.max(0, x - 2 - width);
  const middle = Math.min(bottom - LABEL / 2, Math.max(top + LABEL * 1.5 + 2, y));
  surface.rect(Math.min(x, viewport.width - 2), middle - LABEL / 2, 2, bottom - middle + LABEL / 2, page.warning);
  surface.rect(left - 2, middle - LABEL / 2, width, LABEL, page.panel);
  surface.text(left, middle, text, page.warning);
}

/** The moment that the reader chose. */
function paintMoment(surface: Surface, { viewport, page, moment }: Picture, { counter, height }: PlacedCounter, top: number): void {
  if (moment?.counter !== counter) return;
  const x = Math.round(viewport.x(moment.time));
  if (x >= 0 && x <= viewport.width) surface.rect(x - 1, top, 2, height - 1, page.accent);
}

/** The moment nearest to a pixel that is worth looking at: the peak where it is close, else the one that is meant. */
export function momentAt(picture: Picture, counter: Counter, x: number): number {
  const { viewport } = picture;
  const peak = counter.starts[counter.peak];
  if (Math.abs(viewport.x(peak) - x) <= PEAK_PIXELS) return peak;
  return Math.round(viewport.time(x));
}
const PEAK_PIXELS = 8;
