// Which ranks the timeline shows, in which order, and where.
import type { JobRank } from "../../data/job";

const FOLDED_HEIGHT = 14;
const BETWEEN = 5;
// A few ranks get more room.
const FEW = 10;
const LANE_HEIGHT = { few: 20, many: 15 };

export interface PlacedRank {
  rank: JobRank;
  top: number;
  height: number;
  /** Of one lane; a folded rank has both in one. */
  lane: number;
  open: boolean;
}

/** Whether a filter lets a rank through: numbers and ranges ("0, 4-7"), or words of its label ("host3", "slowest"). */
export function passes(filter: string, { rank, label }: Pick<JobRank, "rank" | "label">): boolean {
  const wanted = filter.trim().toLowerCase();
  if (!wanted) return true;
  if (!/^[\d\s,–-]+$/.test(wanted)) return wanted.split(/\s+/).every((word) => label.toLowerCase().includes(word));
  return wanted
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((part) => {
      const [from, to] = part.split(/[–-]/);
      return to === undefined ? Number(from) === rank : rank >= Number(from || 0) && rank <= Number(to || Infinity);
    });
}

/** The ranks that a filter lets through, by number or those that wait most first. */
export function orderedRanks<R extends Pick<JobRank, "rank" | "label" | "waitNs">>(ranks: R[], filter: string, order: string): R[] {
  const shown = ranks.filter((rank) => passes(filter, rank));
  return order === "wait" ? shown.sort((a, b) => b.waitNs - a.waitNs || a.rank - b.rank) : shown.sort((a, b) => a.rank - b.rank);
}

export function placed(ranks: JobRank[], folded: ReadonlySet<number>): PlacedRank[] {
  let top = 0;
  const tall = ranks.length > FEW ? LANE_HEIGHT.many : LANE_HEIGHT.few;
  return ranks.map((rank) => {
    const open = !folded.has(rank.rank);
    const lane = open ? tall : FOLDED_HEIGHT / 2;
    const height = 2 * lane + 1 + BETWEEN;
    const place = { rank, top, height, lane, open };
    top += height;
    return place;
  });
}

export function heightOf(ranks: PlacedRank[]): number {
  const last = ranks[ranks.length - 1];
  return last ? last.top + last.height : 0;
}

/** Where the computation of a rank is drawn: top and height. */
export function computationBox({ top, lane }: PlacedRank): [number, number] {
  return [top + BETWEEN / 2, lane];
}
/** The same of its calls. */
export function communicationBox({ top, lane }: PlacedRank): [number, number] {
  return [top + BETWEEN / 2 + lane + 1, lane];
}

/** The rank at a height, and whether its calls are there. */
export function rankAt(ranks: PlacedRank[], y: number): { place: PlacedRank; communicates: boolean } | null {
  const place = ranks.find(({ top, height }) => y >= top && y < top + height);
  return place ? { place, communicates: y >= communicationBox(place)[0] } : null;
}
