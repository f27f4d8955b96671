// How wide texts are, measured once each, and how much of one fits.
import { FONT, FONT_SIZE } from "./surface";

const MOST_KEPT = 50_000;
const widths = new Map<string, number>();
let measuring: CanvasRenderingContext2D | null = null;

export function textWidth(text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size > MOST_KEPT) widths.clear();
    if (!measuring) {
      measuring = document.createElement("canvas").getContext("2d")!;
      measuring.font = `${FONT_SIZE}px ${FONT}`;
    }
    widths.set(text, (width = measuring.measureText(text).width));
  }
  return width;
}

/** The text, or as much of its beginning as fits; "" where that would mean nothing. */
export function fitted(text: string, room: number): string {
  const width = textWidth(text);
  if (width <= room) return text;
  for (let kept = Math.floor((text.length * room) / width) - 1; kept >= 3; kept--) {
    const cut = `${text.slice(0, kept)}…`;
    if (textWidth(cut) <= room) return cut;
  }
  return "";
}
