// How often, and by how many programs, each element of a tensor is touched in the whole launch.
import type { App } from "./app";
import type { Events, Launch } from "./data";
import { maskLanes, offsetsOf } from "./lanes";

export interface Counts {
  accesses: Uint32Array;
  programs: Uint32Array;
  mostAccesses: number;
  mostPrograms: number;
  touched: number;
  shared: number;
}

const MOST_ELEMENTS = 32 << 20; // 12 bytes each while counting
const SLICE_MS = 12;
const cache = new WeakMap<Launch, Map<number, Promise<Counts | null>>>();

/** Elements from the tensor's first to its last, gaps included. */
export function extent(launch: Launch, tensor: number): number {
  const { shape, strides } = launch.tensors[tensor];
  return shape.some((size) => !size) ? 0 : 1 + shape.reduce((total, size, dim) => total + (size - 1) * strides[dim], 0);
}

/** null where the tensor is too large to be counted on a page. */
export function countsOf(app: App, tensor: number): Promise<Counts | null> {
  const { launch } = app;
  let tensors = cache.get(launch);
  if (!tensors) cache.set(launch, (tensors = new Map<number, Promise<Counts | null>>()));
  let counts = tensors.get(tensor);
  if (!counts) tensors.set(tensor, (counts = count(app, launch, tensor)));
  return counts;
}

async function count(app: App, launch: Launch, number: number): Promise<Counts | null> {
  const size = extent(launch, number);
  if (size > MOST_ELEMENTS) return null;
  const tensor = launch.tensors[number];
  const events = launch.events as Events;
  const accesses = new Uint32Array(size);
  const programs = new Uint32Array(size);
  const last = new Int32Array(size).fill(-1);
  let until = performance.now() + SLICE_MS;
  for (const row of app.allRows) {
    const owner = launch.tensors[events.tensor[row]];
    const pattern = launch.patterns[events.pattern[row]];
    const mask = launch.masks[events.mask[row]];
    if (!pattern || !mask || owner?.storage !== tensor.storage) continue;
    const lanes = maskLanes(mask, pattern);
    const offsets = offsetsOf(pattern);
    const ratio = pattern.itemsize / tensor.itemsize;
    const program = events.program[row];
    const base = events.base[row] * ratio - tensor.offset;
    for (let lane = 0; lane < offsets.length; lane++) {
      if (lanes && !lanes[lane]) continue;
      const at = Math.floor(base + offsets[lane] * ratio);
      if (at < 0 || at >= size) continue;
      accesses[at]++;
      if (last[at] !== program) {
        last[at] = program;
        programs[at]++;
      }
    }
    if (performance.now() > until) {
      await new Promise((resolve) => setTimeout(resolve));
      until = performance.now() + SLICE_MS;
    }
  }
  return summed(accesses, programs);
}

function summed(accesses: Uint32Array, programs: Uint32Array): Counts {
  const counts = { accesses, programs, mostAccesses: 0, mostPrograms: 0, touched: 0, shared: 0 };
  for (let at = 0; at < accesses.length; at++) {
    if (!accesses[at]) continue;
    counts.touched++;
    if (programs[at] > 1) counts.shared++;
    if (accesses[at] > counts.mostAccesses) counts.mostAccesses = accesses[at];
    if (programs[at] > counts.mostPrograms) counts.mostPrograms = programs[at];
  }
  return counts;
}
