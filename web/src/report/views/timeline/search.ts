// What the page's search finds on the timeline: flags per label, counts, and the next or previous match: GPU work in order
// of time, then the host's.
import type { App } from "../../app";
import type { Scene } from "../../data/scene";

export interface Found {
  scene: number;
  row: number;
}

export class Search {
  /** Per scene one flag per label, or null where nothing is searched for. */
  readonly flags: Uint8Array[] | null;
  readonly count: number;
  readonly gpuCount: number;

  constructor(
    private readonly app: App,
    readonly query: string,
    hidden: Uint8Array[],
  ) {
    const wanted = query.trim().toLowerCase();
    this.flags = wanted
      ? app.scenes.map((scene, number) => scene.labelsWith(wanted).map((matches, label) => (hidden[number][label] ? 0 : matches)))
      : null;
    let [all, gpu] = [0, 0];
    this.flags?.forEach((flags, number) => {
      for (const row of matches(app.scenes[number], flags)) {
        all++;
        if (app.scenes[number].gpuEvent[row] >= 0) gpu++;
      }
    });
    this.count = all;
    this.gpuCount = gpu;
  }

  /** The match after (or before) another, or a moment of the timeline, round the corner where none is left, and its number. */
  next(time: number, from: Found | null, forward: boolean): (Found & { number: number }) | null {
    let beyond: Candidate | null = null;
    let first: Candidate | null = null;
    const sign = forward ? 1 : -1;
    const onHost = from ? this.isOnHost(from.scene, from.row) : !forward && this.count > this.gpuCount;
    const here = { time, onHost, scene: from?.scene ?? -1, row: from?.row ?? -1 };
    this.forEachMatch((candidate) => {
      if (from && candidate.scene === from.scene && candidate.row === from.row) return;
      if (sign * order(candidate, here) > 0 && (!beyond || sign * order(candidate, beyond) < 0)) beyond = candidate;
      if (!first || sign * order(candidate, first) < 0) first = candidate;
    });
    const match = (beyond ?? first) as Candidate | null;
    return match && { ...match, number: this.numberOf(match) };
  }

  private numberOf(match: Candidate): number {
    let number = 1;
    this.forEachMatch((candidate) => {
      if (order(candidate, match) < 0) number++;
    });
    return number;
  }

  private forEachMatch(visit: (candidate: Candidate) => void): void {
    this.flags?.forEach((flags, scene) => {
      const { start } = this.app.scenes[scene].data;
      const origin = this.app.origin(scene);
      for (const row of matches(this.app.scenes[scene], flags)) {
        visit({ time: start[row] - origin, onHost: this.isOnHost(scene, row), scene, row });
      }
    });
  }
  private isOnHost(scene: number, row: number): boolean {
    return this.app.scenes[scene].gpuEvent[row] < 0;
  }
}

/** The rows on the timeline whose labels are flagged. */
export function* matches(scene: Scene, flags: Uint8Array): Generator<number> {
  const { label } = scene.data;
  for (let row = 0; row < scene.count; row++) if (flags[label[row]] && scene.isTimed(row)) yield row;
}

interface Candidate extends Found {
  time: number;
  onHost: boolean;
}

function order(a: Candidate, b: Candidate): number {
  return Number(a.onHost) - Number(b.onHost) || a.time - b.time || a.scene - b.scene || a.row - b.row;
}
