// Which colour each label has, as small numbers that can be summed, and every shade of it that is drawn.
import type { App } from "../../app";
import { mixed } from "../../../shared/colours";
import type { PageColours } from "./page-colours";

export const SHADES = 8;
const FAINTEST = 0.3; // of a colour, where a pixel is hardly busy: still to be seen
const DIMMED = 0.16;
const DIMMED_INK = 0.6;
const OWN_COLOURS = 9; // kernels with a colour of their own; the page has no more that differ visibly

export interface KernelColour {
  name: string;
  colour: string;
  ns: number;
}

export class Colouring {
  /** Per scene: the code of each label. A new array for each change, which is how others notice. */
  readonly codes: Uint16Array[];
  /** Per code: shades from hardly busy to busy all the time, what it looks like when dimmed, and the ink on it. */
  readonly shades: string[][] = [];
  readonly dimmed: string[] = [];
  readonly inks: string[] = [];
  /** The kernels with a colour of their own, where kernels are coloured. */
  readonly kernels: KernelColour[];

  constructor(
    private readonly app: App,
    private readonly page: PageColours,
    readonly byKernel: boolean,
  ) {
    this.kernels = byKernel ? heaviestKernels(app) : [];
    const ownColour = new Map(this.kernels.map(({ name, colour }) => [name, colour]));
    const codeOf = new Map<string, number>();
    this.codes = app.scenes.map((scene) => {
      const labels = scene.data.header.labels.name.length;
      return Uint16Array.from({ length: labels }, (_, label) => {
        const colour = this.labelColour(scene, label, ownColour);
        if (!codeOf.has(colour)) codeOf.set(colour, this.add(colour));
        return codeOf.get(colour)!;
      });
    });
  }

  get dimmedInk(): string {
    return mixed(this.page.background, this.page.quiet, DIMMED_INK);
  }
  get count(): number {
    return this.shades.length;
  }

  private labelColour(scene: App["scenes"][number], label: number, ownColour: Map<string, string>): string {
    if (scene.isInside) return this.app.palette.region(scene.labelGroup(label));
    const category = scene.labelCategory(label);
    if (!category) return this.app.palette.kind(scene.kinds[scene.data.header.labels.kind[label]]);
    if (!this.byKernel) return this.app.palette.category(category);
    return ownColour.get(scene.labelShort(label)) ?? this.app.palette.category("");
  }

  private add(colour: string): number {
    const shade = (_: unknown, step: number): string =>
      mixed(this.page.background, colour, FAINTEST + ((1 - FAINTEST) * (step + 1)) / SHADES);
    this.shades.push(Array.from({ length: SHADES }, shade));
    this.dimmed.push(mixed(this.page.background, colour, DIMMED));
    this.inks.push(this.app.palette.ink(colour));
    return this.shades.length - 1;
  }
}

function heaviestKernels(app: App): KernelColour[] {
  const spent = new Map<string, number>();
  for (const scene of app.scenes) {
    for (const row of scene.data.gpuRow) {
      const name = scene.short(row);
      spent.set(name, (spent.get(name) ?? 0) + scene.data.duration[row]);
    }
  }
  const sorted = [...spent].sort(([, a], [, b]) => b - a).slice(0, OWN_COLOURS);
  return sorted.map(([name, ns]) => ({ name, ns, colour: app.palette.other(name) }));
}
