// Colours of kernel categories, of kinds of host events and of single kernels; they come with the data, so that every
// picture of Warplens agrees.
import type { Decoded } from "./data/decode";
import type { Scene } from "./data/scene";

const NONE = "#c4c4c4";
const WAITING = /wait|barrier|sync|acquire|stall|idle/i;
const GREYS = ["#a6a6a6", "#cfcfcf", "#858585"];
const CALM = 0.31; // lightness of callers on a dark page
const DARKEST = 0.12; // of luminance, on a dark page: what is darker is lightened

export class Palette {
  private readonly own = new Map<string, string>();
  private readonly regions = new Map<string, string>();
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
  /** Of regions inside kernels: waiting is grey, so that work stands out. */
  region(name: string): string {
    return this.shade(this.regions.get(name) ?? NONE);
  }
  /** Gives regions their colours, in the order of their time. */
  nameRegions(names: string[]): void {
    const rich = [...this.header.spareColours, ...Object.values(this.header.colours)];
    const [waits, work] = [names.filter((name) => WAITING.test(name)), names.filter((name) => !WAITING.test(name))];
    waits.forEach((name, place) => this.regions.set(name, GREYS[place % GREYS.length]));
    work.forEach((name, place) => this.regions.set(name, rich[place % rich.length]));
  }
  /** Of host events: pale, to stand back behind kernels; on a dark page dark. */
  kind(kind: string): string {
    const colour = this.header.kindColours[kind] ?? NONE;
    return this.dark ? darkened(colour) : colour;
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
    if (scene.isInside) return this.region(scene.name(row));
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
  return spelled(rgb);
}

/** A pale colour for a dark page: the same hue, dark and calm. */
function darkened(colour: string): string {
  const rgb = channels(colour);
  const middle = (Math.max(...rgb) + Math.min(...rgb)) / 2;
  // Around the middle the channels of a pale colour differ little; on a dark page they may differ more.
  return spelled(rgb.map((value) => CALM + 1.1 * (value - middle)));
}

/** `share` of the way from one colour to another, both #rrggbb. */
export function mixed(from: string, to: string, share: number): string {
  const [a, b] = [channels(from), channels(to)];
  return spelled(a.map((value, at) => value + (b[at] - value) * share));
}

function spelled(rgb: number[]): string {
  const hex = (value: number): string => Math.round(255 * Math.min(1, Math.max(0, value))).toString(16).padStart(2, "0");
  return `#${rgb.map(hex).join("")}`;
}
