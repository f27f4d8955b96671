// The chart as an SVG file that stands alone: real text, a title per frame, nothing to load.
import type { Palette } from "../../palette";
import { labelOf, visit } from "./draw";
import { fullName, sentence, type Look } from "./facts";
import type { Zoom } from "./zoom";

const WIDTH = 1200;
const MARGIN = 12;
const INSIDE = WIDTH - 2 * MARGIN;
const ROW = 17;
const LETTER_PX = 6.65; // of a monospaced letter at 11 px, in the widest of the usual fonts
const LEGEND_ROW = 18;
const FONTS = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace";

export function svgText(look: Look, zoom: Zoom, title: string, palette: Palette): string {
  const parts: string[] = [];
  const legend = legendLines(look);
  const top = 40 + legend.height;
  let rows = 1;
  const topOf = (row: number): number => {
    rows = Math.max(rows, row + 1);
    return top + row * ROW;
  };
  visit(
    look.frames,
    { ...zoom, width: INSIDE },
    [0, Infinity],
    (frame, x, wide, row) => {
      const left = Math.max(0, x);
      parts.push(frameText(look, palette, frame, MARGIN + left, topOf(row), Math.min(x + wide, INSIDE) - left));
    },
    ({ from, to, row, frames }) => {
      const facts = `${frames} frames, each narrower than 0.5 px`;
      parts.push(`<g><title>${facts}</title>${rect(MARGIN + from, topOf(row), to - from, "#c4c4c4")}</g>`);
    },
  );
  const height = top + rows * ROW + MARGIN;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="${FONTS}" font-size="11">`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="${MARGIN}" y="24" font-size="15" font-weight="bold">${escaped(title)}</text>`,
    ...legend.lines,
    ...parts,
    "</svg>\n",
  ].join("\n");
}

function frameText(look: Look, palette: Palette, frame: number, x: number, y: number, wide: number): string {
  const colour = look.colour(frame);
  const name = fullName(look, frame);
  const letters = Math.floor((wide - 6) / LETTER_PX);
  const shown = letters > 0 ? labelOf(look, frame, letters) : "";
  const text = shown ? `<text x="${(x + 3).toFixed(1)}" y="${y + 12}" fill="${palette.ink(colour)}">${escaped(shown)}</text>` : "";
  return `<g><title>${escaped(`${name}\n${sentence(look, frame)}`)}</title>${rect(x, y, wide > 3 ? wide - 0.5 : wide, colour)}${text}</g>`;
}

function rect(x: number, y: number, width: number, colour: string): string {
  return `<rect x="${x.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${ROW - 1}" fill="${colour}"/>`;
}

function legendLines(look: Look): { lines: string[]; height: number } {
  const lines: string[] = [];
  let x = MARGIN;
  let y = 34;
  for (const [text, colour] of look.legend()) {
    const needed = 30 + text.length * LETTER_PX;
    if (x + needed > WIDTH && x > MARGIN) [x, y] = [MARGIN, y + LEGEND_ROW];
    if (colour) lines.push(`<rect x="${x}" y="${y}" width="11" height="11" fill="${colour}" stroke="#666666" stroke-width="0.5"/>`);
    lines.push(`<text x="${(x + 16).toFixed(1)}" y="${y + 9.5}">${escaped(text)}</text>`);
    x += needed;
  }
  return { lines, height: y - 34 + LEGEND_ROW };
}

// Control characters are not allowed in XML, whatever a trace calls its events.
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

function escaped(text: string): string {
  return text.replace(FORBIDDEN, "�").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
