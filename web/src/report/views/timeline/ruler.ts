// The ruler: ticks at round times, and a band per scene with its steps.
import { formatNs } from "../../../shared/format";
import type { Picture } from "./picture";
import type { Surface } from "./surface";
import { fitted, textWidth } from "./text";

const TICKS_HEIGHT = 20;
export const BAND_HEIGHT = 16;
const PIXELS_PER_TICK = 95;
const UNITS: [name: string, ns: number][] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

export interface Ticks {
  times: number[];
  text(time: number): string;
}

/** Times that are multiples of 1, 2 or 5, with as many decimals as their distance needs. */
function ticksOf(from: number, to: number, pixels: number): Ticks {
  const least = Math.max(1, ((to - from) * PIXELS_PER_TICK) / pixels);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= least * 0.999) ?? 10);
  const times: number[] = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) times.push(n * step);
  const [unit, ns] = UNITS.find(([, size]) => Math.max(Math.abs(from), Math.abs(to)) >= size) ?? ["ns", 1];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / ns) + 1e-9));
  return { times, text: (time) => (time === 0 ? "0" : `${(time / ns).toFixed(decimals)} ${unit}`) };
}

/** What the ruler depends on. */
export interface RulerPicture extends Pick<Picture, "viewport" | "page" | "steps" | "origins" | "windows" | "noteTimes"> {
  readonly app: { scenes: { length: number } };
}

/** Where the notes' flags stand. */
export function noteFlags({ viewport, noteTimes }: Pick<RulerPicture, "viewport" | "noteTimes">): number[] {
  return noteTimes.map((time) => Math.round(viewport.x(time)));
}
export const FLAG = 16;

export function rulerHeight(picture: Pick<Picture, "steps">): number {
  return TICKS_HEIGHT + bandsOf(picture).length * BAND_HEIGHT;
}

/** The scenes that have steps, in the order of their bands. */
export function bandsOf({ steps }: Pick<Picture, "steps">): number[] {
  return steps.flatMap((marks, scene) => (marks.length ? [scene] : []));
}

export function paintRuler(surface: Surface, picture: RulerPicture): void {
  const { viewport, page } = picture;
  const height = rulerHeight(picture);
  surface.rect(0, 0, viewport.width, height, page.background);
  bandsOf(picture).forEach((scene, band) => paintBand(surface, picture, scene, band * BAND_HEIGHT));
  paintTicks(surface, picture, height);
  for (const [from, to] of picture.windows) paintWindow(surface, picture, from, to, height);
  noteFlags(picture).forEach((x, at) => {
    surface.rect(x, height - FLAG, 1, FLAG, page.accent);
    surface.rect(x, height - FLAG, FLAG, FLAG - 4, page.accent);
    surface.text(x + 3, height - FLAG / 2 - 2, String(at + 1), page.background);
  });
}

function paintTicks(surface: Surface, { viewport, page }: RulerPicture, height: number): void {
  const ticks = ticksOf(viewport.from, viewport.to, viewport.width);
  surface.rect(0, height - 1, viewport.width, 1, page.line);
  for (const time of ticks.times) {
    const x = Math.round(viewport.x(time));
    const text = ticks.text(time);
    surface.rect(x, height - 6, 1, 6, page.quiet);
    const from = Math.min(x + 4, viewport.width - textWidth(text) - 2);
    if (from >= x - 4) surface.text(from, height - TICKS_HEIGHT / 2 - 1, text, page.quiet);
  }
}

function paintBand(surface: Surface, picture: RulerPicture, scene: number, top: number): void {
  const { viewport, origins, app, page } = picture;
  const prefix = app.scenes.length > 1 ? `${"AB"[scene]} ` : "";
  for (const { step, from, to } of picture.steps[scene]) {
    const left = Math.round(viewport.x(from - origins[scene]));
    const right = Math.round(viewport.x(to - origins[scene]));
    if (right < 0 || left > viewport.width) continue;
    surface.rect(Math.max(0, left), top, Math.min(viewport.width, right) - Math.max(0, left), BAND_HEIGHT - 1, page.panel);
    surface.rect(left, top, 1, BAND_HEIGHT - 1, page.quiet);
    const start = Math.max(0, left) + 4;
    const text = fitted(`${prefix}step ${step}`, right - start - 2) || fitted(String(step), right - start - 2);
    if (text) surface.text(start, top + BAND_HEIGHT / 2 - 1, text, page.text);
  }
}

function paintWindow(surface: Surface, { viewport, page }: RulerPicture, from: number, to: number, height: number): void {
  const left = Math.max(0, viewport.x(from));
  const right = Math.min(viewport.width, viewport.x(to));
  if (right <= left) return;
  surface.rect(left, 0, right - left, height, page.shade);
  surface.rect(left, 0, 1, height, page.accent);
  surface.rect(right - 1, 0, 1, height, page.accent);
  const text = formatNs(to - from);
  const width = textWidth(text) + 8;
  if (right - left < width) return;
  surface.rect((left + right - width) / 2, height - 17, width, 14, page.accent);
  surface.text((left + right - width) / 2 + 4, height - 10, text, page.background);
}
