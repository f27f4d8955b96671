// The ranks of a job: when each computed and communicated, and which calls belong together.
import { readInts, readNumbers } from "../../shared/blocks";
import type { ColumnSpec, DrawnRankHeader, JobHeader } from "../../shared/generated/records";
import { union, type Union } from "./intervals";

export interface DecodedJob {
  /** How many ranks the job has, drawn or not. */
  ranks: number;
  drawn: DrawnRankHeader[];
  /** Per communication kernel, by rank and start; times in ns. A wait of -1 is not known. */
  start: Float64Array;
  length: Float64Array;
  wait: Float64Array;
  bytes: Float64Array;
  match: Int32Array;
  kind: Int32Array;
  group: Int32Array;
  step: Int32Array;
  peer: Int32Array;
  computeStart: Float64Array;
  computeLength: Float64Array;
  stepStart: Float64Array;
  stepLength: Float64Array;
  stepNumber: Int32Array;
}

export function decodeJob(header: JobHeader, bytes: Uint8Array): DecodedJob {
  const numbers = (columns: Record<string, ColumnSpec>, name: string): Float64Array => readNumbers(columns[name], bytes);
  const ints = (columns: Record<string, ColumnSpec>, name: string): Int32Array => readInts(columns[name], bytes);
  const { calls, compute, steps } = header;
  return {
    ranks: header.ranks,
    drawn: header.drawn,
    start: numbers(calls, "start"),
    length: numbers(calls, "length"),
    wait: numbers(calls, "wait"),
    bytes: numbers(calls, "bytes"),
    match: ints(calls, "match"),
    kind: ints(calls, "kind"),
    group: ints(calls, "group"),
    step: ints(calls, "step"),
    peer: ints(calls, "peer"),
    computeStart: numbers(compute, "start"),
    computeLength: numbers(compute, "length"),
    stepStart: numbers(steps, "start"),
    stepLength: numbers(steps, "length"),
    stepNumber: ints(steps, "step"),
  };
}

export interface JobStep {
  step: number;
  name: string;
  from: number;
  to: number;
}

/** One rank that is drawn: its calls are rows `first` to `last` of the job's. */
export interface JobRank extends Omit<DrawnRankHeader, "steps"> {
  first: number;
  last: number;
  compute: Union;
  waits: Union;
  transfers: Union;
  waitNs: number;
  steps: JobStep[];
  /** What a filter looks at. */
  label: string;
}

export class Job {
  readonly ranks: JobRank[];
  private byMatch: Map<number, number[]> | null = null;
  private readonly placeOfRank: Map<number, JobRank>;

  constructor(
    readonly data: DecodedJob,
    private readonly texts: string[],
  ) {
    let [call, compute, step] = [0, 0, 0];
    const waits = data.wait.map((wait) => Math.max(0, wait));
    this.ranks = data.drawn.map((drawn) => {
      const rank = rankOf(data, waits, drawn, call, compute, step);
      [call, compute, step] = [call + drawn.calls, compute + drawn.computes, step + drawn.steps];
      return rank;
    });
    this.placeOfRank = new Map(this.ranks.map((rank) => [rank.rank, rank]));
  }

  get hasAll(): boolean {
    return this.ranks.length === this.data.ranks;
  }
  kind(call: number): string {
    return this.texts[this.data.kind[call]] ?? "";
  }
  group(call: number): string {
    return this.texts[this.data.group[call]] ?? "";
  }
  end(call: number): number {
    return this.data.start[call] + this.data.length[call];
  }
  /** How long it waited, 0 where that is not known. */
  wait(call: number): number {
    return Math.max(0, this.data.wait[call]);
  }
  rank(number: number): JobRank | undefined {
    return this.placeOfRank.get(number);
  }
  rankOfCall(call: number): JobRank {
    return this.ranks.find(({ first, last }) => call >= first && call < last)!;
  }
  /** The calls of all ranks that are one collective, in the order of ranks; the call alone where it is not matched. */
  matched(call: number): number[] {
    const match = this.data.match[call];
    return match < 0 ? [call] : (this.matches().get(match) ?? [call]);
  }
  /** The first call of a collective, -1 where none of its ranks is drawn. */
  callOf(match: number): number {
    return this.matches().get(match)?.[0] ?? -1;
  }
  /** The call that began last: the others waited for it. */
  lastOf(calls: number[]): number {
    return calls.reduce((last, call) => (this.data.start[call] > this.data.start[last] ? call : last));
  }
  /** First and last moment of all ranks that are drawn. */
  extent(): [number, number] {
    let [from, to] = [Infinity, -Infinity];
    const spans: [Float64Array, Float64Array][] = [
      [this.data.start, this.data.length],
      [this.data.computeStart, this.data.computeLength],
      [this.data.stepStart, this.data.stepLength],
    ];
    for (const [start, length] of spans) {
      for (let row = 0; row < start.length; row++) {
        from = Math.min(from, start[row]);
        to = Math.max(to, start[row] + length[row]);
      }
    }
    return from < to ? [from, to] : [0, 1000];
  }
  /** The job's steps: each from the first rank's begin to the next one's. */
  steps(): JobStep[] {
    const begins = new Map<number, [number, number]>();
    for (const { steps } of this.ranks) {
      for (const { step, from, to } of steps) {
        const [first, last] = begins.get(step) ?? [Infinity, -Infinity];
        begins.set(step, [Math.min(first, from), Math.max(last, to)]);
      }
    }
    const ordered = [...begins].sort(([, a], [, b]) => a[0] - b[0]);
    return ordered.map(([step, [from, to]], at) => ({ step, name: `step ${step}`, from, to: ordered[at + 1]?.[1][0] ?? to }));
  }

  private matches(): Map<number, number[]> {
    if (this.byMatch) return this.byMatch;
    this.byMatch = new Map();
    const { match } = this.data;
    for (let call = 0; call < match.length; call++) {
      if (match[call] < 0) continue;
      const calls = this.byMatch.get(match[call]);
      if (calls) calls.push(call);
      else this.byMatch.set(match[call], [call]);
    }
    return this.byMatch;
  }
}

/** The next rank, whose rows begin at these places. */
function rankOf(data: DecodedJob, waits: Float64Array, drawn: DrawnRankHeader, call: number, compute: number, step: number): JobRank {
  const rows = Array.from({ length: drawn.calls }, (_, at) => call + at);
  const moved = rows.map((row) => data.start[row] + waits[row]);
  const moving = rows.map((row) => data.length[row] - waits[row]);
  const computes = data.computeStart.slice(compute, compute + drawn.computes);
  const steps = Array.from({ length: drawn.steps }, (_, at): JobStep => {
    const from = data.stepStart[step + at];
    const number = data.stepNumber[step + at];
    return { step: number, name: `step ${number}`, from, to: from + data.stepLength[step + at] };
  });
  return {
    ...drawn,
    first: call,
    last: call + drawn.calls,
    compute: { starts: computes, ends: computes.map((from, at) => from + data.computeLength[compute + at]) },
    waits: union(rows, data.start, waits),
    transfers: union(
      rows.map((_, at) => at),
      Float64Array.from(moved),
      Float64Array.from(moving),
    ),
    waitNs: rows.reduce((sum, row) => sum + waits[row], 0),
    // A rank's step on the host reaches to its next one.
    steps: steps.map((own, at) => ({ ...own, to: steps[at + 1]?.from ?? own.to })),
    label: [`rank ${drawn.rank}`, drawn.host, drawn.stage >= 0 ? `stage ${drawn.stage}` : "", drawn.why].filter(Boolean).join(" · "),
  };
}
