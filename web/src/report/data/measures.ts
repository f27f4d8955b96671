// How the GPU's time divides: busy, idle, computation, exposed communication; as docs/concepts/numbers.md defines them.
import { clip, join, length, subtract, union, type Union } from "./intervals";
import type { Scene } from "./scene";

const COMMUNICATION = "Communication";
export const MEASURES = [
  "computation",
  "communication",
  "memcpy",
  "exposed_communication",
  "exposed_memcpy",
  "busy",
  "idle",
  "total",
] as const;
export type Measures = Record<(typeof MEASURES)[number], number>;

export interface Work {
  computation: Union;
  communication: Union;
  memcpy: Union;
  everything: Union;
}

const workByScene = new WeakMap<Scene, Map<number | null, Work>>();

/** The work of one GPU, or of all of them for null; computed once. */
export function workOf(scene: Scene, gpu: number | null): Work {
  let works = workByScene.get(scene);
  if (!works) workByScene.set(scene, (works = new Map<number | null, Work>()));
  let work = works.get(gpu);
  if (!work) works.set(gpu, (work = splitWork(scene, gpu)));
  return work;
}

function splitWork(scene: Scene, gpu: number | null): Work {
  const rows: Record<"computation" | "communication" | "memcpy", number[]> = {
    computation: [],
    communication: [],
    memcpy: [],
  };
  scene.data.gpuRow.forEach((row, event) => {
    if (gpu !== null && scene.data.gpu[event] !== gpu) return;
    if (scene.kind(row) === "memcpy") rows.memcpy.push(row);
    else if (scene.category(row) === COMMUNICATION) rows.communication.push(row);
    else rows.computation.push(row);
  });
  const { start, duration } = scene.data;
  const computation = union(rows.computation, start, duration);
  const communication = union(rows.communication, start, duration);
  const memcpy = union(rows.memcpy, start, duration);
  return { computation, communication, memcpy, everything: join(join(computation, communication), memcpy) };
}

/** The measures in ns over some windows together. */
export function measure(work: Work, windows: [number, number][]): Measures {
  const sums = Object.fromEntries(MEASURES.map((name) => [name, 0])) as Measures;
  for (const [from, to] of windows) {
    const computation = clip(work.computation, from, to);
    const communication = clip(work.communication, from, to);
    const memcpy = clip(work.memcpy, from, to);
    sums.computation += length(computation);
    sums.communication += length(communication);
    sums.memcpy += length(memcpy);
    sums.exposed_communication += length(subtract(communication, computation));
    sums.exposed_memcpy += length(subtract(subtract(memcpy, computation), communication));
    sums.busy += length(clip(work.everything, from, to));
    sums.total += to - from;
  }
  sums.idle = sums.total - sums.busy;
  return sums;
}

export interface Gap {
  gpu: number;
  start: number;
  end: number;
  cause: string;
}

const knownGaps = new WeakMap<Scene, Gap[]>();

/** The parts of the idle stretches of every GPU, in order of GPU and time, each with its cause. */
export function gapsOf(scene: Scene): Gap[] {
  let gaps = knownGaps.get(scene);
  if (!gaps) {
    gaps = [];
    const { gapCause, gapLength } = scene.data;
    for (const gpu of gpusOf(scene)) {
      const { starts, ends } = workOf(scene, gpu).everything;
      const launches = launchesByStart(scene, gpu);
      for (let i = 1; i < starts.length; i++) {
        const [from, to] = [ends[i - 1], starts[i]];
        for (let start = from; start < to; start = gaps[gaps.length - 1].end) {
          const cause = scene.texts[gapCause[gaps.length]] ?? "unknown";
          const excess = gapLength[gaps.length];
          // As outputs/html/events.py writes it: 0 is up to the end, a first part is expected to end with the launch.
          const expected = start === from ? Math.min(to, Math.max(from, launches.get(to) ?? from)) : start;
          gaps.push({ gpu, start, end: excess ? expected + excess - Number(excess > 0) : to, cause });
        }
      }
    }
    knownGaps.set(scene, gaps);
  }
  return gaps;
}

/** By the moment at which GPU events start, when the first of them was launched. */
function launchesByStart({ data }: Scene, gpu: number): Map<number, number> {
  const launches = new Map<number, number>();
  const known = new Set<number>();
  data.gpuRow.forEach((row, event) => {
    if (data.gpu[event] !== gpu || known.has(data.start[row])) return;
    known.add(data.start[row]);
    if (data.launch[event] >= 0) launches.set(data.start[row], data.start[data.launch[event]]);
  });
  return launches;
}

export function gpusOf(scene: Scene): number[] {
  return [...new Set(scene.data.gpu)].sort((a, b) => a - b);
}
