// Colours of kernel categories, of kinds of host events and of single kernels; they come with the data, so that every
// picture of Warplens agrees.
import { darkened, isDark, lightened, ink } from "../shared/colours";
import type { Decoded } from "./data/decode";
import type { Scene } from "./data/scene";

const NONE = "#c4c4c4";
const WAITING = /wait|barrier|sync|acquire|stall|idle/i;
const GREYS = ["#a6a6a6", "#cfcfcf", "#858585"];

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
    waits.forEach((name, index) => this.regions.set(name, GREYS[index % GREYS.length]));
    work.forEach((name, index) => this.regions.set(name, rich[index % rich.length]));
  }
  /** Of host events: pale next to kernels; dark on a dark page. */
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
  /** Any colour, lighter on a dark page where it must be. */
  shaded(colour: string): string {
    return this.shade(colour);
  }
  ink(colour: string): string {
    return ink(colour);
  }

  private shade(colour: string): string {
    if (!this.dark) return colour;
    let shaded = this.shades.get(colour);
    if (!shaded) this.shades.set(colour, (shaded = lightened(colour)));
    return shaded;
  }
}
