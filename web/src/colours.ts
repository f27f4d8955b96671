// Colours of kernel categories, of kinds of host events and of single kernels; they come with the data, so that every
// picture of Warplens agrees.
import type { Decoded } from "./data/decode";
import type { Scene } from "./data/scene";

const NONE = "#c4c4c4";
const DARKEST = 0.12; // of luminance, on a dark page: what is darker is lightened

export class Palette {
  private readonly own = new Map<string, string>();
  private readonly shades = new Map<string, string>();
  private dark = false;

  constructor(private readonly header: Decoded["header"]) {
    this.refresh();
  }

  /** After a change of theme. */
  refresh(): void {
    this.dark = isDark();
  }

  category(name: string): string {
    return this.shade(this.header.colours[name] ?? NONE);
  }
  kind(kind: string): string {
    return this.shade(this.header.kindColours[kind] ?? NONE);
  }
  /** A colour for anything else (a kernel by its name), the same as long as the page is open. */
  other(name: string): string {
    let colour = this.own.get(name);
    if (!colour) {
      colour = this.header.spareColours[this.own.size % this.header.spareColours.length];
      this.own.set(name, colour);
    }
    return this.shade(colour);
  }
  event(scene: Scene, row: number): string {
    const category = scene.category(row);
    return category ? this.category(category) : this.kind(scene.kind(row));
  }
  /** Black or white, whichever reads better on a colour. */
  ink(colour: string): string {
    return luminance(channels(colour)) > 0.179 ? "#000000" : "#ffffff";
  }

  private shade(colour: string): string {
    if (!this.dark) return colour;
    let shaded = this.shades.get(colour);
    if (!shaded) this.shades.set(colour, (shaded = lightened(colour)));
    return shaded;
  }
}

export function isDark(): boolean {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The page's own colours, for what is drawn on a canvas: `cssColour("--text")`. */
export function cssColour(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
}

function luminance(rgb: number[]): number {
  const [r, g, b] = rgb.map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function lightened(colour: string): string {
  let rgb = channels(colour);
  for (let step = 0; step < 12 && luminance(rgb) < DARKEST; step++) rgb = rgb.map((value) => value + (1 - value) * 0.12);
  return `#${rgb.map((value) => Math.round(value * 255).toString(16).padStart(2, "0")).join("")}`;
}
