// What the page's search finds on the timeline: flags per event, counts, and the next or previous match: GPU work in order
// of time, then the host's, then GPU work whose op matches.
import type { App } from "../../app";
import { BY_OP, matchesOf } from "../../data/found";

export interface Found {
  scene: number;
  row: number;
}

export class Search {
  /** Per scene one flag per event, or null where nothing is searched for. */
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
      ? app.scenes.map((scene, number) => {
          const { label } = scene.data;
          return matchesOf(scene, wanted).flags.map((flag, row) => (hidden[number][label[row]] ? 0 : flag));
        })
      : null;
    let [all, gpu] = [0, 0];
    this.flags?.forEach((flags, number) => {
      flags.forEach((flag, row) => {
        if (flag) all++;
        if (flag && app.scenes[number].gpuEvent[row] >= 0) gpu++;
      });
    });
    this.count = all;
    this.gpuCount = gpu;
  }

  /** The match after (or before) another, or a moment of the timeline, round the corner where none is left, and its number. */
  next(time: number, from: Found | null, forward: boolean): (Found & { number: number }) | null {
    let beyond: Candidate | null = null;
    let first: Candidate | null = null;
    const sign = forward ? 1 : -1;
    const rank = from ? this.rank(from.scene, from.row) : forward ? 0 : this.lastRank();
    const here = { time, rank, scene: from?.scene ?? -1, row: from?.row ?? -1 };
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
      flags.forEach((flag, row) => {
        if (flag) visit({ time: start[row] - origin, rank: this.rank(scene, row), scene, row });
      });
    });
  }
  /** Which matches come first: a GPU event, a host event, a GPU event by its op. */
  private rank(scene: number, row: number): number {
    if (this.flags?.[scene][row] === BY_OP) return 2;
    return this.app.scenes[scene].gpuEvent[row] >= 0 ? 0 : 1;
  }
  private lastRank(): number {
    let last = 0;
    this.forEachMatch(({ rank }) => (last = Math.max(last, rank)));
    return last;
  }
}

interface Candidate extends Found {
  time: number;
  rank: number;
}

function order(a: Candidate, b: Candidate): number {
  return a.rank - b.rank || a.time - b.time || a.scene - b.scene || a.row - b.row;
}
