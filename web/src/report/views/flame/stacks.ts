// Call paths for flame graph viewers: folded stacks, and speedscope's JSON; the same as outputs/flamegraph.py writes.
import type { Table } from "../../data/table";
import { comparedBy } from "./diff";
import { nameOf, pathTo, type Frames } from "./frames";
import { ROOT } from "./tree";

/** One line per path: names joined by `;`, then the weight, of times in ns. */
export function foldedText(frames: Frames): string {
  return lines(frames, (frame) => (frames.self[frame] > 0 ? `${Math.round(frames.self[frame])}` : ""));
}

/** The same for two traces, with the weights of A and of B, as difffolded.pl writes them. */
export function foldedDiffText(frames: Frames, table: Table): string {
  const [a, b] = [ownOf(table, "a"), ownOf(table, "b")];
  return lines(frames, (frame) => {
    const row = frames.node[frame];
    return a[row] > 0 || b[row] > 0 ? `${a[row]} ${b[row]}` : "";
  });
}

function lines(frames: Frames, weightOf: (frame: number) => string): string {
  const all: string[] = [];
  for (let frame = 0; frame < frames.size; frame++) {
    const weight = weightOf(frame);
    if (weight) all.push(`${namesTo(frames, frame).map(folded).join(";")} ${weight}`);
  }
  return `${all.join("\n")}\n`;
}

// CSI sequences, strings ended by BEL or ST, then every other escape pair; as outputs/text.py.
const ANSI = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]?/g;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const SPACE = /(?!\ufeff)[\s\x1c-\x1f\x85]/;

/** Names on one line without the separator, letter by letter as Python writes them. */
export function folded(name: string): string {
  const bare = name.search(UNPRINTABLE) < 0 ? name : name.replace(ANSI, "").replace(UNPRINTABLE, (char) => (SPACE.test(char) ? " " : ""));
  return bare.replaceAll(";", ":");
}

function namesTo(frames: Frames, frame: number): string[] {
  return frame === ROOT ? [nameOf(frames, ROOT)] : pathTo(frames, frame).map((ancestor) => nameOf(frames, ancestor));
}

export interface Profile {
  name: string;
  /** Per frame its own weight. */
  own: (frame: number) => number;
  unit?: "nanoseconds" | "bytes" | "none";
}

export function diffProfiles(frames: Frames, table: Table): Profile[] {
  return (["a", "b"] as const).map((side) => {
    const own = ownOf(table, side);
    const { what, unit } = comparedBy(table);
    return {
      name: `${what} of ${side.toUpperCase()}`,
      own: (frame) => own[frames.node[frame]],
      unit: unit === "us" ? "nanoseconds" : "none",
    };
  });
}

/** A "sampled" profile of https://www.speedscope.app/file-format-schema.json: one sample per path, in the frames' order. */
export function speedscopeText(frames: Frames, name: string, profiles: Profile[]): string {
  return JSON.stringify({
    $schema: "https://www.speedscope.app/file-format-schema.json",
    name,
    exporter: "warplens",
    shared: { frames: frames.names.map((name) => ({ name })) },
    profiles: profiles.map((profile) => sampled(frames, profile)),
  });
}

function sampled(frames: Frames, { name, own, unit = "nanoseconds" }: Profile): object {
  const samples: number[][] = [];
  const weights: number[] = [];
  for (let frame = 0; frame < frames.size; frame++) {
    const weight = Math.round(own(frame));
    if (weight <= 0) continue;
    samples.push((frame === ROOT ? [ROOT] : pathTo(frames, frame)).map((ancestor) => frames.name[ancestor]));
    weights.push(weight);
  }
  const endValue = weights.reduce((sum, weight) => sum + weight, 0);
  return { type: "sampled", name, unit, startValue: 0, endValue, samples, weights };
}

/** A comparison's table holds totals: a node's own is what its children leave. */
function ownOf(table: Table, side: "a" | "b"): Float64Array {
  const { unit, scale } = comparedBy(table);
  const totals = (table.column(`${side}_${unit}`).values as Float64Array).map((value) => value * scale);
  const own = totals.slice();
  const parent = table.column("parent").values;
  for (let row = 1; row < table.rows; row++) own[parent[row]] -= totals[row];
  return own.map((value) => Math.max(0, Math.round(value)));
}
