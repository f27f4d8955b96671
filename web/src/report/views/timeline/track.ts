// One row of boxes: events in order of their start, ready to be searched and summed by pixel.
import type { Scene } from "../../data/scene";
import { lowerBound } from "./cover";
import { Dominance } from "./dominance";

const MOST_LOOKED_BACK = 4000;

export class Track {
  readonly length: number;
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** Latest end so far: rows may overlap where a recorder tangled them, and only this is in order. */
  readonly latest: Float64Array;
  /** Time covered by the events before each place. */
  readonly covered: Float64Array;
  private dominance: Dominance | null = null;
  private dominanceOf: object | null = null;
  private matched: Int32Array | null = null;
  private matchedOf: object | null = null;

  constructor(
    readonly scene: Scene,
    readonly rows: Int32Array,
  ) {
    const { start, duration } = scene.data;
    this.length = rows.length;
    this.starts = new Float64Array(rows.length);
    this.ends = new Float64Array(rows.length);
    this.latest = new Float64Array(rows.length);
    this.covered = new Float64Array(rows.length + 1);
    let reached = -Infinity;
    for (let i = 0; i < rows.length; i++) {
      const from = start[rows[i]];
      const to = from + duration[rows[i]];
      this.starts[i] = from;
      this.ends[i] = to;
      this.covered[i + 1] = this.covered[i] + Math.max(0, to - Math.max(from, reached));
      this.latest[i] = reached = Math.max(reached, to);
    }
  }

  /** The first place whose event, or one before it, ends after a moment. */
  firstEndingAfter(time: number): number {
    return lowerBound(this.latest, time);
  }
  /** The first place from `low` on that starts at a moment or later; near ones are found fast. */
  firstFrom(time: number, low: number): number {
    let step = 1;
    while (low + step < this.length && this.starts[low + step] < time) step *= 2;
    return lowerBound(this.starts, time, low + (step >> 1), Math.min(this.length, low + step));
  }

  /** The event at a moment: the one there, else the longest within the tolerance; -1 for none. */
  at(time: number, tolerance: number): { position: number; near: number } {
    let longest = -1;
    let near = 0;
    const last = lowerBound(this.starts, time + tolerance) - 1;
    for (let i = last; i >= 0 && last - i < MOST_LOOKED_BACK && this.latest[i] >= time - tolerance; i--) {
      const end = this.ends[i];
      if (end < time - tolerance) continue;
      near++;
      if (this.starts[i] <= time && end >= time && end - this.starts[i] > 3 * tolerance) return { position: i, near: 1 };
      if (longest < 0 || end - this.starts[i] > this.ends[longest] - this.starts[longest]) longest = i;
    }
    return { position: longest, near };
  }
  /** Where an event is in the row, -1 for not at all. */
  placeOf(row: number): number {
    for (let i = lowerBound(this.starts, this.scene.start(row)); i < this.length; i++) {
      if (this.rows[i] === row) return i;
      if (this.starts[i] > this.scene.start(row)) break;
    }
    return -1;
  }

  /** The dominant colours under a colouring: one code per label. */
  dominant(codes: Uint16Array, codeCount: number): Dominance {
    if (!this.dominance || this.dominanceOf !== codes) {
      const { label, duration } = this.scene.data;
      const own = new Uint16Array(this.length);
      const weights = new Float64Array(this.length);
      for (let i = 0; i < this.length; i++) {
        own[i] = codes[label[this.rows[i]]];
        weights[i] = duration[this.rows[i]];
      }
      this.dominance = new Dominance(own, weights, codeCount);
      this.dominanceOf = codes;
    }
    return this.dominance;
  }
  /** How many events before each place match a search: one flag per event. */
  matchedBefore(flags: Uint8Array): Int32Array {
    if (!this.matched || this.matchedOf !== flags) {
      this.matched = new Int32Array(this.length + 1);
      for (let i = 0; i < this.length; i++) this.matched[i + 1] = this.matched[i] + (flags[this.rows[i]] ? 1 : 0);
      this.matchedOf = flags;
    }
    return this.matched;
  }
}
