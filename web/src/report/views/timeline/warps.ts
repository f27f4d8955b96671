// The warps of instrumented kernels: which CTA a lane belongs to, how both are called, and what the others do meanwhile.
import { warpOf, type Scene, type Warp } from "../../data/scene";
import { formatCount } from "../../../shared/format";
import type { Lane } from "./lanes";

const OPEN_WARPS = 16; // as many as a screen has room for; the CTAs behind them begin folded

/** The warps of one CTA. */
export interface Cta {
  /** As the address names it. */
  key: string;
  title: string;
  /** Of the first CTA of a kernel what stands above all of them, "" for the others. */
  kernel: string;
  lanes: Lane[];
  opensByDefault: boolean;
}

/** The lanes of instrumented kernels by kernel and CTA, each CTA's warps in order. */
export function ctasOf(lanes: Lane[], prefix: string): Cta[] {
  const warps = new Map<string, { warp: Warp; lanes: Lane[] }>();
  for (const lane of lanes) {
    const warp = warpOf(lane.source);
    if (!warp) continue;
    const own = warps.get(lane.source.process);
    if (own) own.lanes.push(lane);
    else warps.set(lane.source.process, { warp, lanes: [lane] });
  }
  const sorted = [...warps.values()].sort(
    (a, b) => a.warp.kernel.localeCompare(b.warp.kernel) || a.warp.cta - b.warp.cta || a.warp.core - b.warp.core,
  );
  let shown = 0;
  return sorted.map(({ warp, lanes: own }, index) => {
    own.sort((a, b) => (warpOf(a.source)?.number ?? 0) - (warpOf(b.source)?.number ?? 0));
    const opensByDefault = index === 0 || shown + own.length <= OPEN_WARPS;
    shown += own.length;
    const isFirst = index === 0 || sorted[index - 1].warp.kernel !== warp.kernel;
    const count = sorted.filter((other) => other.warp.kernel === warp.kernel).length;
    const kernel = isFirst ? `${warp.kernel} · ${formatCount(count)} ${count > 1 ? "CTAs" : "CTA"}` : "";
    return { key: `${prefix}c${index}`, title: `CTA ${warp.cta} · core ${warp.core}`, kernel, lanes: own, opensByDefault };
  });
}

/** What a warp did in a stretch of time. */
export interface Meanwhile {
  warps: number[];
  /** Region and share of the stretch, largest first; "" for between regions. */
  shares: [region: string, share: number][];
}

/** What the other warps of an event's CTA did while it lasted; warps that did the same are together. */
export function meanwhile(scene: Scene, row: number): Meanwhile[] {
  const own = scene.lanes[scene.data.lane[row]];
  const [from, to] = [scene.start(row), scene.end(row)];
  if (to <= from) return [];
  const groups = new Map<string, Meanwhile>();
  const others = scene.timedLanes.filter((lane) => lane.process === own.process && lane.number !== own.number);
  const numbered = others.map((lane) => ({ lane, number: warpOf(lane)?.number ?? 0 })).sort((a, b) => a.number - b.number);
  for (const { lane, number } of numbered) {
    const shares = sharesOf(scene, lane.first, lane.events, from, to);
    const key = shares.map(([region]) => region).join("|");
    const group = groups.get(key);
    if (group) {
      for (const [index, [, share]] of shares.entries()) group.shares[index][1] += share;
      group.warps.push(number);
    } else groups.set(key, { warps: [number], shares });
  }
  for (const { warps, shares } of groups.values()) for (const share of shares) share[1] /= warps.length;
  return [...groups.values()];
}

const LEAST_SHARE = 0.02;

function sharesOf(scene: Scene, first: number, events: number, from: number, to: number): [string, number][] {
  const rows: number[] = [];
  for (let row = first; row < first + events && scene.start(row) < to; row++) {
    if (scene.end(row) > from && !scene.isArrowEnd(row)) rows.push(row);
  }
  const moments = new Set([from, to]);
  for (const row of rows) for (const time of [scene.start(row), scene.end(row)]) if (time > from && time < to) moments.add(time);
  const sorted = [...moments].sort((a, b) => a - b);
  const spent = new Map<string, number>();
  for (let i = 0; i + 1 < sorted.length; i++) {
    // Rows are in order of their start, outermost first: the last that covers the stretch is the innermost.
    let inside = "";
    for (const row of rows) if (scene.start(row) <= sorted[i] && scene.end(row) > sorted[i]) inside = scene.name(row);
    spent.set(inside, (spent.get(inside) ?? 0) + sorted[i + 1] - sorted[i]);
  }
  const shares = [...spent].map(([region, ns]): [string, number] => [region, ns / (to - from)]);
  return shares.filter(([, share]) => share >= LEAST_SHARE).sort(([, a], [, b]) => b - a);
}

/** "warps 4–7", "warp 8": neighbours as a range. */
export function warpsText(numbers: number[]): string {
  const ranges: [number, number][] = [];
  for (const number of numbers) {
    const last = ranges[ranges.length - 1];
    if (last && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const texts = ranges.map(([low, high]) => (low === high ? String(low) : `${low}–${high}`));
  return `${numbers.length > 1 ? "warps" : "warp"} ${texts.join(", ")}`;
}
