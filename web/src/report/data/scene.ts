// One trace: its events as typed arrays, and the questions that views ask of them.
import type { DecodedScene } from "./decode";
import type { LaneHeader, StepMark } from "../../shared/generated/records";

export const NONE = -1;
const BACKWARD = "(backward)";
const REGION = "gpu_annotation";

export interface Lane extends LaneHeader {
  number: number;
  /** What the lane is called on the page. */
  title: string;
}

export interface Launch {
  grid: string;
  block: string;
  registers: number;
  sharedBytes: number;
  occupancyPercent: number;
}

/** A warp of an instrumented kernel, as its lane names it. */
export interface Warp {
  kernel: string;
  core: number;
  cta: number;
  number: number;
}

export class Scene {
  readonly count: number;
  readonly lanes: Lane[];
  readonly steps: StepMark[];
  /** GPU event (place in gpuRow) of each event, -1 for host events. */
  readonly gpuEvent: Int32Array;
  /** First start and last end of anything, and of GPU work (equal to the former where there is none). */
  readonly span: [number, number];
  readonly gpuSpan: [number, number];
  /** Regions inside kernels, warp by warp, and nothing else. */
  readonly isInside: boolean;
  private readonly arrowEnds: Set<number>;
  private launched: Map<number, number[]> | null = null;

  constructor(
    readonly data: DecodedScene,
    readonly texts: string[],
    readonly kinds: string[],
  ) {
    const { header } = data;
    this.count = header.events;
    this.steps = header.steps;
    this.lanes = header.lanes.map((lane, number) => ({ ...lane, number, title: laneTitle(lane) }));
    this.gpuEvent = new Int32Array(this.count).fill(NONE);
    const { gpuRow } = data;
    for (let event = 0; event < gpuRow.length; event++) this.gpuEvent[gpuRow[event]] = event;
    this.span = spanOf(data, null);
    const { kind } = header.labels;
    this.isInside = kind.length > 0 && kind.every((code) => kinds[code] === REGION) && this.lanes.every((lane) => warpOf(lane));
    this.arrowEnds = new Set([...data.arrowFrom, ...data.arrowTo]);
    this.gpuSpan = gpuRow.length ? spanOf(data, gpuRow) : this.span;
  }

  get label(): string {
    return this.data.header.label;
  }
  get hasGpu(): boolean {
    return this.data.gpuRow.length > 0;
  }
  /** When the first launch of GPU work began, Infinity where none is on record. */
  get firstLaunch(): number {
    const { launch, start } = this.data;
    let first = Infinity;
    for (const row of launch) if (row >= 0 && start[row] < first && this.isTimed(row)) first = start[row];
    return first;
  }
  /** The lanes of the timeline: those whose events have a time. */
  get timedLanes(): Lane[] {
    return this.lanes.filter(({ untimed }) => !untimed);
  }
  get timedCount(): number {
    return this.timedLanes.reduce((sum, { events }) => sum + events, 0);
  }
  /** Which labels events of the timeline have, one flag per label. */
  get timedLabels(): Uint8Array {
    const { label, header } = this.data;
    const used = new Uint8Array(header.labels.name.length);
    for (const { first, events } of this.timedLanes) for (let row = first; row < first + events; row++) used[label[row]] = 1;
    return used;
  }
  /** Whether an event has a time; recorded callers have none. */
  isTimed(row: number): boolean {
    return !this.lanes[this.data.lane[row]].untimed;
  }

  start(row: number): number {
    return this.data.start[row];
  }
  end(row: number): number {
    return this.data.start[row] + this.data.duration[row];
  }
  /** The name as recorded. */
  name(row: number): string {
    return this.texts[this.data.header.labels.name[this.data.label[row]]];
  }
  /** A readable name: kernels in short form, modules without their prefix. */
  short(row: number): string {
    return this.labelShort(this.data.label[row]);
  }
  labelShort(label: number): string {
    const { short, name } = this.data.header.labels;
    return short[label] >= 0 ? this.texts[short[label]] : this.texts[name[label]].replace(/^nn\.Module: /, "");
  }
  kind(row: number): string {
    return this.kinds[this.data.header.labels.kind[this.data.label[row]]];
  }
  /** The kernel category of GPU work, "" for host events. */
  category(row: number): string {
    return this.labelCategory(this.data.label[row]);
  }
  labelCategory(label: number): string {
    const code = this.data.header.labels.category[label];
    return code >= 0 ? this.texts[code] : "";
  }
  /** What a label is coloured and hidden by: the category of GPU work, the region inside a kernel, "" for host events. */
  labelGroup(label: number): string {
    return this.isInside ? this.texts[this.data.header.labels.name[label]] : this.labelCategory(label);
  }
  /** What sort of event it is, in words. */
  sort(row: number): string {
    if (this.isInside) return this.isArrowEnd(row) ? "end of an arrow between warps" : "region inside a kernel";
    return this.category(row) || this.kind(row).replaceAll("_", " ");
  }
  isArrowEnd(row: number): boolean {
    return this.arrowEnds.has(row);
  }
  /** The arrows that leave or reach an event of a warp, or something inside it: their near ends and their far ends. */
  arrowsOf(row: number): [near: number, far: number][] {
    const { arrowFrom, arrowTo, lane } = this.data;
    const [from, to] = [this.start(row), this.end(row)];
    const isHere = (end: number): boolean => lane[end] === lane[row] && this.start(end) >= from && this.start(end) <= to;
    const arrows: [number, number][] = [];
    arrowFrom.forEach((source, arrow) => {
      if (isHere(source)) arrows.push([source, arrowTo[arrow]]);
      else if (isHere(arrowTo[arrow])) arrows.push([arrowTo[arrow], source]);
    });
    return arrows;
  }

  /** Which labels a search finds: by the name as recorded or the short one; `wanted` in lower case. */
  labelsWith(wanted: string): Uint8Array {
    return Uint8Array.from(this.data.header.labels.name, (text, label) =>
      this.texts[text].toLowerCase().includes(wanted) || this.labelShort(label).toLowerCase().includes(wanted) ? 1 : 0,
    );
  }

  /** The events around one, innermost first: its launch and callers; a backward op's caller is its forward op. */
  context(row: number): number[] {
    const event = this.gpuEvent[row];
    const path: number[] = [];
    let at = event >= 0 ? this.caller(event) : this.above(row);
    while (at >= 0 && path.length < 1000) {
      path.push(at);
      at = this.above(at);
    }
    return path;
  }
  /** A GPU event's launch, or the innermost of its recorded callers. */
  private caller(event: number): number {
    const owner = this.data.owner[event];
    return owner >= 0 && !this.isTimed(owner) ? owner : this.data.launch[event];
  }
  /** What is around a host event: the event that it runs in, or a backward op's forward op. */
  above(row: number): number {
    return this.data.forward[row] >= 0 ? this.data.forward[row] : this.data.parent[row];
  }
  /** What a backward op is shown under in a call tree. */
  get backwardName(): string {
    return BACKWARD;
  }

  /** GPU events (rows) that a host call launched itself. */
  launchedBy(row: number): number[] {
    if (!this.launched) {
      this.launched = new Map();
      this.data.launch.forEach((launch, event) => {
        if (launch < 0) return;
        const rows = this.launched!.get(launch);
        if (rows) rows.push(this.data.gpuRow[event]);
        else this.launched!.set(launch, [this.data.gpuRow[event]]);
      });
    }
    return this.launched.get(row) ?? [];
  }

  launch(row: number): number {
    const event = this.gpuEvent[row];
    return event >= 0 ? this.data.launch[event] : NONE;
  }
  owner(row: number): number {
    const event = this.gpuEvent[row];
    return event >= 0 ? this.data.owner[event] : NONE;
  }

  /** Shapes, types, strides and scalar inputs of an op, where they are recorded. */
  inputs(row: number): { dims: string; types: string; strides: string; values: string } | null {
    const spec = this.data.spec[row];
    if (spec < 0) return null;
    const [dims, types, strides, values] = this.data.header.specs[spec].map((code) => this.texts[code]);
    return { dims, types, strides, values };
  }
  geometry(row: number): Launch | null {
    const event = this.gpuEvent[row];
    const geometry = event >= 0 ? this.data.geometry[event] : NONE;
    if (geometry < 0) return null;
    const [grid, block, registers, sharedBytes, occupancyPercent] = this.data.header.geometries[geometry];
    return { grid, block, registers, sharedBytes, occupancyPercent };
  }
  copiedBytes(row: number): number | null {
    const copy = this.data.copyRow.indexOf(row);
    return copy < 0 ? null : this.data.copyBytes[copy];
  }
}

/** The warp that a lane is, null for threads and streams. */
export function warpOf({ process, thread }: Pick<LaneHeader, "process" | "thread">): Warp | null {
  const cta = /^([^]*) Core(\d+) CTA(\d+)$/.exec(process);
  const number = /^\D*(\d+)$/.exec(thread);
  return cta && number && { kernel: cta[1], core: Number(cta[2]), cta: Number(cta[3]), number: Number(number[1]) };
}

function laneTitle(lane: LaneHeader): string {
  const thread = lane.thread_name || lane.thread;
  if (!lane.gpu) return `${lane.process_name ? `${lane.process_name} ` : ""}${lane.process} · ${thread}`;
  const name = /stream/i.test(thread) ? thread.trim() : `stream ${thread}`;
  return `${/^(GPU|rank \d)/.test(lane.process) ? lane.process : `GPU ${lane.process}`} · ${name}`;
}

/** First start and last end of some rows; null: of all. */
function spanOf({ start, duration }: DecodedScene, rows: Int32Array | null): [number, number] {
  const count = rows ? rows.length : start.length;
  let first = Infinity;
  let last = -Infinity;
  for (let i = 0; i < count; i++) {
    const row = rows ? rows[i] : i;
    const end = start[row] + duration[row];
    if (start[row] < first) first = start[row];
    if (end > last) last = end;
  }
  return count ? [first, last] : [0, 1];
}
