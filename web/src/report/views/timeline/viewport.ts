// Which stretch of time the timeline shows, and how time and pixels translate.

import type { Range } from "../../../shared/codecs";

const SHORTEST_NS = 100;
const MARGIN = 0.02; // of the extent: room to see where the trace begins and ends

export class Viewport {
  from: number;
  to: number;
  /** Pixels that the stretch covers. */
  width = 1;

  constructor(
    readonly extent: readonly [number, number],
    private readonly shortest = SHORTEST_NS,
    /** What is shown at first. */
    readonly home: readonly [number, number] = extent,
  ) {
    [this.from, this.to] = home;
  }

  get nsPerPixel(): number {
    return (this.to - this.from) / this.width;
  }
  get span(): number {
    return this.to - this.from;
  }
  x(time: number): number {
    return (time - this.from) / this.nsPerPixel;
  }
  time(x: number): number {
    return this.from + x * this.nsPerPixel;
  }

  /** Shows less (factor below 1) or more around a pixel that stays where it is. */
  zoom(factor: number, x = this.width / 2): void {
    const at = this.time(x);
    const span = Math.max(this.shortest, this.span * factor);
    const from = at - (x / this.width) * span;
    this.show(from, from + span);
  }
  pan(pixels: number): void {
    const shift = pixels * this.nsPerPixel;
    this.show(this.from + shift, this.to + shift);
  }
  /** Shows a stretch, kept within the trace and not shorter than can be drawn. */
  show(from: number, to: number): void {
    const [first, last] = this.extent;
    const margin = (last - first) * MARGIN;
    const whole = last - first + 2 * margin;
    const span = Math.min(whole, Math.max(this.shortest, to - from));
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, first - margin), last + margin - span);
    this.to = this.from + span;
  }
  /** Shows a stretch with some room around it. */
  frame(from: number, to: number, room = 0.05): void {
    const margin = Math.max(this.shortest / 2, (to - from) * room);
    this.show(from - margin, to + margin);
  }
  showHome(): void {
    [this.from, this.to] = this.home;
  }
  showEverything(): void {
    [this.from, this.to] = this.extent;
  }
  /** Moves as little as needed for a moment to be in sight. */
  reach(from: number, to: number): void {
    if (to > this.from && from < this.to && to - from > this.span / 2000) return;
    if (to - from <= this.span / 2000) return this.frame(from, to, 20);
    const middle = (from + to) / 2;
    this.show(middle - this.span / 2, middle + this.span / 2);
  }

  /** In whole ns; null for what is shown at first. */
  get range(): Range | null {
    const [first, last] = this.home;
    if (this.from === first && this.to === last) return null;
    return [Math.round(this.from), Math.round(this.to)];
  }
}
