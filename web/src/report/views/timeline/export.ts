// The present view as a picture for a paper or a ticket: legend, axis, lanes with their names.
import { save } from "../../../shared/dom";
import { formatNs, formatPercent } from "../../../shared/format";
import { groupColour, timeByCategory, wholeTime } from "./legend";
import { laneTop } from "./layout";
import { paintMarks } from "./marks";
import type { Model } from "./model";
import { paintLanes } from "./paint";
import { paintRuler, rulerHeight } from "./ruler";
import { CanvasSurface, SvgSurface, type Surface } from "./surface";
import { fitted, textWidth } from "./text";

const NAMES_WIDTH = 190;
const MARGIN = 10;
const LEGEND_ROW = 18;
const PNG_SCALE = 2;

export function saveSvg(model: Model): void {
  const surface = new SvgSurface();
  const [width, height] = draw(surface, model);
  save(fileName(model, "svg"), "image/svg+xml", surface.document(width, height, title(model)));
}

export function savePng(model: Model): void {
  const canvas = document.createElement("canvas");
  const [width, height] = draw(new SvgSurface(), model);
  canvas.width = width * PNG_SCALE;
  canvas.height = height * PNG_SCALE;
  const context = canvas.getContext("2d")!;
  context.scale(PNG_SCALE, PNG_SCALE);
  draw(new CanvasSurface(context), model);
  canvas.toBlob((blob) => blob && save(fileName(model, "png"), "image/png", blob), "image/png");
}

/** Draws everything and says how large it is. */
function draw(surface: Surface, model: Model): [width: number, height: number] {
  const { viewport, page } = model;
  const width = NAMES_WIDTH + viewport.width + 2 * MARGIN;
  const entries = legendEntries(model);
  const rows = legendRows(entries, width - 2 * MARGIN);
  const top = MARGIN + LEGEND_ROW + rows.length * LEGEND_ROW;
  const height = top + rulerHeight(model) + model.height + MARGIN;
  const left = MARGIN + NAMES_WIDTH;
  surface.rect(0, 0, width, height, page.background);
  surface.text(MARGIN, MARGIN + LEGEND_ROW / 2, fitted(title(model), width - 2 * MARGIN), page.text, true);
  rows.forEach((row, i) => paintLegendRow(surface, row, MARGIN + LEGEND_ROW * (i + 1), page.text));
  surface.clipped(left, top, viewport.width, height, () =>
    surface.moved(left, top, () => {
      paintRuler(surface, model);
      surface.moved(0, rulerHeight(model), () => {
        paintLanes(surface, model);
        paintMarks(surface, model);
      });
    }),
  );
  surface.moved(MARGIN, top + rulerHeight(model), () => paintNames(surface, model));
  return [width, height];
}

function paintNames(surface: Surface, model: Model): void {
  const { layout, height, scrolled, page } = model;
  const inSight = (y: number, pinned: boolean): boolean => y < height - 8 && (pinned || y >= layout.pinnedHeight);
  for (const placed of layout.placed.filter(({ thin }) => !thin)) {
    const lowest = laneTop(layout, placed, scrolled) + placed.height - 8;
    const y = Math.max(laneTop(layout, placed, scrolled) + Math.min(9, placed.height / 2), placed.pinned ? 0 : layout.pinnedHeight + 9);
    if (y <= lowest + 8 && inSight(y, placed.pinned)) surface.text(0, y, fitted(placed.lane.title, NAMES_WIDTH - 10), page.text);
  }
  for (const placed of layout.counters) {
    const y = laneTop(layout, placed, scrolled) + 9;
    if (inSight(y, placed.pinned)) surface.text(0, y, fitted(placed.counter.title, NAMES_WIDTH - 10), page.text);
  }
  for (const heading of layout.headings) {
    const y = laneTop(layout, heading, scrolled) + heading.height / 2;
    if (inSight(y, heading.pinned)) surface.text(0, y, fitted(heading.text, NAMES_WIDTH - 10), page.quiet, true);
  }
}

interface Entry {
  colour: string;
  text: string;
}

/** Colours of what is shown, with their share of the selected GPU time. */
function legendEntries(model: Model): Entry[] {
  const { app, colouring } = model;
  if (colouring.byKernel) return colouring.kernels.map(({ name, colour }) => ({ colour, text: fitted(name, 220) }));
  const hidden = new Set(app.store.get("hide"));
  const spent = timeByCategory(app, 0);
  const sum = wholeTime(model, 0, spent) || 1;
  const shown = [...spent].filter(([name]) => !hidden.has(name)).sort(([, a], [, b]) => b - a);
  return shown.map(([name, ns]) => ({
    colour: groupColour(app, name),
    text: app.isDiff ? name : `${name} ${formatPercent((100 * ns) / sum)}`,
  }));
}

function legendRows(entries: Entry[], room: number): Entry[][] {
  const rows: Entry[][] = [];
  let used = Infinity;
  for (const entry of entries) {
    const width = textWidth(entry.text) + 32;
    if (used + width > room) {
      rows.push([]);
      used = 0;
    }
    rows[rows.length - 1].push(entry);
    used += width;
  }
  return rows;
}

function paintLegendRow(surface: Surface, entries: Entry[], top: number, ink: string): void {
  let x = MARGIN;
  for (const { colour, text } of entries) {
    surface.rect(x, top + 4, 10, 10, colour);
    surface.text(x + 14, top + LEGEND_ROW / 2, text, ink);
    x += textWidth(text) + 32;
  }
}

function title({ app, viewport }: Model): string {
  const names = app.scenes.map(({ label }) => label).join(" and ");
  return `${names}: ${formatNs(viewport.span)} from ${formatNs(viewport.from)}`;
}

function fileName({ app }: Model, extension: string): string {
  const stem = (app.scenes[0]?.label ?? "trace").replace(/\.(json|gz|zip)/g, "").replace(/[^\w.-]+/g, "_");
  return `${stem}-timeline.${extension}`;
}
