// What the colours of a job's charts mean.
import { h } from "../../../shared/dom";

export type Key = [colour: string, text: string];

export function legendKeys(keys: Key[]): HTMLElement[] {
  return keys.map(([colour, text]) => {
    const swatch = h("i", { class: "tl-swatch" });
    swatch.style.background = colour;
    return h("span", { class: "tl-key" }, swatch, h("span", { text }));
  });
}
