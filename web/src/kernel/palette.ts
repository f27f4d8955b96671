// Colours of the pictures, by theme: loads blue, stores orange, both violet; heat from pale to strong.
import { cssColour, isDark, mixed } from "../shared/colours";
import { pixel } from "../shared/picture";

export const LOADED = 1;
export const STORED = 2;
export const ATOMIC = 4;
export const MASKED = 8;
export const CHOSEN = 16;
export const BEYOND = 32; // outside the tensor
export const DROPPED = 64; // out of bounds
const STEPS = 128;
const STRENGTH = 0.32; // of what the program touches in other operations than the chosen one

export interface Colours {
  flags: Uint32Array;
  ground: number;
  line: number;
  text: number;
  quiet: number;
  bad: number;
  frame: number; // around cells of the heat map
  heat: Uint32Array; // from nothing to most
  signed: Uint32Array; // from most negative over zero to most positive
  names: Record<"load" | "store" | "both" | "atomic", string>;
  beyond: string;
}

let cached: Colours | null = null;

export function colours(): Colours {
  return (cached ??= make());
}
export function forgetColours(): void {
  cached = null;
}

function make(): Colours {
  const dark = isDark();
  const ground = mixed(cssColour("--panel"), cssColour("--bg"), 0.5);
  const names = dark
    ? { load: "#4ba3dc", store: "#f08c43", both: "#b39bff", atomic: "#e69ac6" }
    : { load: "#0072b2", store: "#d55e00", both: "#785ef0", atomic: "#a8467f" };
  const beyond = mixed(cssColour("--panel"), cssColour("--line"), 0.75);
  const heat = dark ? ["#26354a", "#3f78c4", "#f0e442"] : ["#dbe7fa", "#3f78c4", "#3a0f52"];
  return {
    beyond,
    flags: Uint32Array.from({ length: 64 }, (_, flags) => pixel(ofFlags(flags, names, flags & BEYOND ? beyond : ground))),
    ground: pixel(ground),
    line: pixel(mixed(ground, cssColour("--line"), 0.6)),
    text: pixel(cssColour("--text")),
    quiet: pixel(cssColour("--quiet")),
    bad: pixel(cssColour("--bad")),
    frame: pixel(dark ? "#ff4fd8" : "#ff8c00"),
    heat: Uint32Array.from({ length: STEPS + 1 }, (_, step) =>
      pixel(step <= STEPS / 2 ? mixed(heat[0], heat[1], (2 * step) / STEPS) : mixed(heat[1], heat[2], (2 * step) / STEPS - 1)),
    ),
    signed: Uint32Array.from({ length: 2 * STEPS + 1 }, (_, step) =>
      pixel(mixed(ground, step < STEPS ? names.load : names.store, Math.abs(step - STEPS) / STEPS)),
    ),
    names,
  };
}

function ofFlags(flags: number, names: Colours["names"], ground: string): string {
  const touched = flags & (LOADED | STORED | ATOMIC);
  if (!touched) return ground;
  const full = touched & ATOMIC ? names.atomic : touched === (LOADED | STORED) ? names.both : touched & LOADED ? names.load : names.store;
  return mixed(ground, full, flags & CHOSEN ? 1 : STRENGTH);
}

/** Place in `heat` of a share from 0 to 1. */
export function heatStep(share: number): number {
  return Math.round(STEPS * Math.min(1, Math.max(0, share)));
}
/** Place in `signed` of a share from -1 to 1. */
export function signedStep(share: number): number {
  return Math.round(STEPS * (1 + Math.min(1, Math.max(-1, share))));
}
