// The lanes: which there are, in which order, which start open, and how their events stack in rows.
import type { App } from "../../app";
import { warpOf, type Lane as Source, type Scene } from "../../data/scene";
import { Cover } from "./cover";
import { isRunner, runnerLevels } from "./runners";
import { Track } from "./track";

const MOST_STACKED = 8; // concurrent kernels drawn below each other; further ones share the row that frees first
const IDLE_SHARE = 0.01;
const FEW_EVENTS = 20;
const PROFILER_PROCESS = "Spans"; // where PyTorch files the time it recorded

export class Lane {
  readonly scene: Scene;
  /** As the address names it. */
  readonly key: string;
  readonly title: string;
  /** Runs on a GPU, or annotates what does. */
  readonly onGpu: boolean;
  readonly cover: Cover;
  readonly busyNs: number;
  opensByDefault = true;
  /** Outermost rows of a thread that are not drawn: a program is started by several frames, and one stands for all. */
  private readonly folded: number;
  private rowOfEvent: Int32Array | null = null;
  private stackedRows = 1;
  /** Per row its events, and what is made of those once the row is drawn. */
  private rowsOfTracks: Int32Array[] | null = null;
  private madeTracks: Track[] = [];
  private flat: Track | null = null;
  private madeFor: Uint8Array | null = null;

  constructor(
    app: App,
    readonly sceneNumber: number,
    readonly source: Source,
  ) {
    const scene = (this.scene = app.scenes[sceneNumber]);
    this.key = app.scenes.length > 1 ? `${sceneNumber}.${source.number}` : String(source.number);
    const kind = onlyKind(scene, source);
    this.title = titleOf(scene, source, kind);
    this.onGpu = source.gpu || kind === "gpu_annotation";
    this.cover = Cover.ofSorted(scene.data.start, scene.data.duration, source.first, source.events);
    this.busyNs = this.cover.busy(...scene.span);
    this.folded = this.onGpu ? 0 : foldedLevels(scene, source);
  }

  /** The title with all that is around the lane. */
  get fullTitle(): string {
    const warp = warpOf(this.source);
    return warp ? `${this.title} of CTA ${warp.cta} on core ${warp.core}` : this.title;
  }
  get isGpu(): boolean {
    return this.source.gpu;
  }
  get rows(): number {
    this.stack();
    return this.stackedRows;
  }
  /** The row of the open lane that an event is drawn in. */
  rowOf(row: number): number {
    return this.stack()[row - this.source.first];
  }
  /** A row of the open lane, without events whose label is hidden. */
  track(place: number, hidden: Uint8Array): Track {
    this.forget(hidden);
    const rows = (this.rowsOfTracks ??= this.split(hidden));
    return (this.madeTracks[place] ??= new Track(this.scene, rows[place]));
  }
  /** All in one row, for a closed lane: of host threads only what nothing else encloses. */
  strip(hidden: Uint8Array): Track {
    this.forget(hidden);
    const { depth } = this.scene.data;
    return (this.flat ??= new Track(
      this.scene,
      this.pick((row) => !hidden[this.scene.data.label[row]] && (this.onGpu || depth[row] === this.folded)),
    ));
  }

  private forget(hidden: Uint8Array): void {
    if (this.madeFor === hidden) return;
    this.madeFor = hidden;
    this.rowsOfTracks = this.flat = null;
    this.madeTracks = [];
  }

  private pick(wanted: (row: number) => boolean): Int32Array {
    const { first, events } = this.source;
    const rowsOfLane = new Int32Array(events);
    let count = 0;
    for (let row = first; row < first + events; row++) if (wanted(row)) rowsOfLane[count++] = row;
    return rowsOfLane.slice(0, count);
  }

  private split(hidden: Uint8Array): Int32Array[] {
    const { first, events } = this.source;
    const { label, depth } = this.scene.data;
    const places = this.stack();
    const least = this.onGpu ? -Infinity : this.folded;
    const counts = new Uint32Array(this.stackedRows);
    for (let i = 0; i < events; i++) if (!hidden[label[first + i]] && depth[first + i] >= least) counts[places[i]]++;
    const rows = Array.from(counts, (count) => new Int32Array(count));
    counts.fill(0);
    for (let i = 0; i < events; i++) {
      if (!hidden[label[first + i]] && depth[first + i] >= least) rows[places[i]][counts[places[i]]++] = first + i;
    }
    return rows;
  }

  /** The row of each event: host calls stack by their depth, what runs side by side goes to the first free row. */
  private stack(): Int32Array {
    if (this.rowOfEvent) return this.rowOfEvent;
    const { first, events } = this.source;
    const { start, duration, depth } = this.scene.data;
    const places = this.onGpu ? packed(start, duration, first, events) : depth.slice(first, first + events);
    const folded = this.onGpu ? 0 : this.folded;
    let last = 0;
    for (let i = 0; i < events; i++) {
      places[i] = Math.max(0, places[i] - folded);
      if (places[i] > last) last = places[i];
    }
    this.stackedRows = last + 1;
    return (this.rowOfEvent = places);
  }
}

const runnersByScene = new WeakMap<Scene, boolean[]>();

/** Per label whether it is a frame that only starts a program. */
function runnersOf(scene: Scene): boolean[] {
  let runners = runnersByScene.get(scene);
  if (!runners) {
    runners = scene.data.header.labels.name.map((text) => isRunner(scene.texts[text]));
    runnersByScene.set(scene, runners);
  }
  return runners;
}

function foldedLevels(scene: Scene, { first, events }: Source): number {
  const runners = runnersOf(scene);
  const { depth, label } = scene.data;
  if (!runners.includes(true)) return 0;
  return runnerLevels(depth.subarray(first, first + events), (at) => runners[label[first + at]]);
}

function packed(start: Float64Array, duration: Float64Array, first: number, events: number): Int32Array {
  const places = new Int32Array(events);
  const ends: number[] = [];
  for (let i = 0; i < events; i++) {
    const row = first + i;
    const track = firstFree(ends, start[row]);
    places[i] = track;
    ends[track] = Math.max(ends[track] ?? -Infinity, start[row] + duration[row]);
  }
  return places;
}

function firstFree(ends: number[], time: number): number {
  let earliest = 0;
  for (let i = 0; i < ends.length; i++) {
    if (ends[i] <= time) return i;
    if (ends[i] < ends[earliest]) earliest = i;
  }
  return ends.length < MOST_STACKED ? ends.length : earliest;
}

function onlyKind(scene: Scene, { first, events }: Source): string {
  const kind = events ? scene.kind(first) : "";
  for (let row = first; row < first + Math.min(events, 500); row++) if (scene.kind(row) !== kind) return "";
  return kind;
}

/** A thread is named without its process where there is only one. */
function titleOf(scene: Scene, source: Source, kind: string): string {
  const thread = source.thread_name.trim() || `thread ${source.thread}`;
  if (scene.isInside) return source.thread;
  if (source.gpu) return source.title;
  if (kind === "gpu_annotation") return `Annotations · ${thread}`;
  if (kind === "overhead") return "Profiler overhead";
  if (source.process === PROFILER_PROCESS) return `Recording · ${source.thread}`;
  const processes = scene.lanes.filter((lane) => !lane.gpu && /^\d/.test(lane.process) && !isStream(lane)).map((lane) => lane.process);
  return new Set(processes).size > 1 ? `${source.process} · ${thread}` : thread;
}

// PyTorch files annotations of a stream under the number of the GPU, which is not a process.
function isStream({ thread_name }: Source): boolean {
  return /^stream /.test(thread_name);
}

/** All lanes with events: per scene GPU streams, their annotations, then threads from the busiest to the idlest. */
export function lanesOf(app: App): Lane[] {
  return app.scenes.flatMap((scene, number) => {
    const lanes = scene.timedLanes.filter(({ events }) => events > 0).map((lane) => new Lane(app, number, lane));
    const threads = lanes.filter((lane) => !lane.onGpu);
    const least = (scene.span[1] - scene.span[0]) * IDLE_SHARE;
    for (const lane of threads) lane.opensByDefault = lane.busyNs >= least && lane.source.events >= FEW_EVENTS;
    threads.sort((a, b) => Number(b.opensByDefault) - Number(a.opensByDefault) || b.busyNs - a.busyNs);
    if (threads.length && !threads[0].opensByDefault && !scene.hasGpu) threads[0].opensByDefault = true;
    const rank = (lane: Lane): number => (lane.isGpu ? 0 : 1);
    const gpu = lanes.filter((lane) => lane.onGpu).sort((a, b) => rank(a) - rank(b));
    return [...gpu, ...threads];
  });
}
