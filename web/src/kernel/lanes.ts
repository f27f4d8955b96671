// Which elements of a tensor the lanes of an access reach.
import type { Events, Launch, Mask, Pattern, Tensor } from "./data";

/** `index` is the lane's place in the tensor, one number per dimension; it is reused for the next lane. */
export type Visit = (lane: number, index: Int32Array, active: boolean) => void;

interface Step {
  dim: number; // -1: the axis repeats the same elements
  by: number;
}

const expandedMasks = new WeakMap<Mask, Uint8Array>();
const activeBoxes = new WeakMap<Mask, [number, number][]>();
const expandedPatterns = new WeakMap<Pattern, Float64Array>();
const orders = new WeakMap<Tensor, number[]>();

/** One byte per lane; null where all are active. */
export function maskLanes(mask: Mask, pattern: Pattern): Uint8Array | null {
  if (!mask.box && !mask.bits) return null;
  let lanes = expandedMasks.get(mask);
  if (!lanes) {
    lanes = mask.bits ? fromBits(mask.bits, pattern.lanes) : fromBox(mask.box as [number, number][], pattern);
    expandedMasks.set(mask, lanes);
  }
  return lanes;
}

function fromBits(bits: Int32Array, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, lane) => (bits[lane >> 3] >> (7 - (lane & 7))) & 1);
}

function fromBox(box: [number, number][], pattern: Pattern): Uint8Array {
  const lanes = new Uint8Array(pattern.lanes);
  forEachLane(pattern.shape, (lane, index) => {
    lanes[lane] = Number(box.every(([low, high], axis) => index[axis] >= low && index[axis] < high));
  });
  return lanes;
}

function forEachLane(shape: number[], visit: (lane: number, index: Int32Array) => void): void {
  const index = new Int32Array(shape.length);
  const count = shape.reduce((total, size) => total * size, 1);
  for (let lane = 0; lane < count; lane++) {
    visit(lane, index);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

/** Every lane's offset from the first, in elements. */
export function offsetsOf(pattern: Pattern): Float64Array {
  if (pattern.offsets) return pattern.offsets;
  let offsets = expandedPatterns.get(pattern);
  if (!offsets) {
    const expanded = new Float64Array(pattern.lanes);
    const strides = pattern.strides as number[];
    forEachLane(pattern.shape, (lane, index) => {
      let total = 0;
      for (let axis = 0; axis < strides.length; axis++) total += index[axis] * strides[axis];
      expanded[lane] = total;
    });
    expandedPatterns.set(pattern, (offsets = expanded));
  }
  return offsets;
}

/** Dimensions from the one with the widest stride on; those of size 1 say nothing about an element. */
function orderOf(tensor: Tensor): number[] {
  let order = orders.get(tensor);
  if (!order) {
    order = tensor.shape.map((_, dim) => dim).filter((dim) => tensor.shape[dim] > 1 && tensor.strides[dim] > 0);
    order.sort((a, b) => tensor.strides[b] - tensor.strides[a]);
    orders.set(tensor, order);
  }
  return order;
}

/** The place of the element `relative` to the tensor's first, which may be outside the tensor. */
export function placeOf(tensor: Tensor, relative: number, into: Int32Array): Int32Array {
  into.fill(0);
  const order = orderOf(tensor);
  if (!order.length) into[into.length - 1] = relative;
  for (const dim of order) {
    const at = Math.floor(relative / tensor.strides[dim]);
    into[dim] = at;
    relative -= at * tensor.strides[dim];
  }
  return into;
}

export function inside(tensor: Tensor, index: Int32Array): boolean {
  for (let dim = 0; dim < tensor.shape.length; dim++) if (index[dim] < 0 || index[dim] >= tensor.shape[dim]) return false;
  return true;
}

/** Visits the lanes of one event. Masked lanes of a regular block go on beyond the tensor's edge. */
export function eachLane(launch: Launch, row: number, tensor: Tensor, visit: Visit): void {
  const events = launch.events as Events;
  const pattern = launch.patterns[events.pattern[row]];
  const mask = launch.masks[events.mask[row]];
  if (!pattern || !mask) return;
  const base = events.base[row];
  const lanes = maskLanes(mask, pattern);
  const steps = stepsOf(pattern, tensor);
  const first = placeOf(tensor, base - tensor.offset, new Int32Array(tensor.shape.length));
  if (steps && staysInside(first, steps, pattern, mask, tensor)) alongSteps(first, steps, pattern, lanes, visit);
  else oneByOne(base, pattern, tensor, lanes, visit);
}

/** The last index per dimension that the lanes of a regular block reach, masked ones included; null for others. */
export function reach(launch: Launch, row: number, tensor: Tensor): number[] | null {
  const events = launch.events as Events;
  const pattern = launch.patterns[events.pattern[row]];
  const mask = launch.masks[events.mask[row]];
  const steps = pattern && mask?.box ? stepsOf(pattern, tensor) : null;
  if (!steps) return null;
  const first = placeOf(tensor, events.base[row] - tensor.offset, new Int32Array(tensor.shape.length));
  if (!staysInside(first, steps, pattern, mask, tensor)) return null;
  for (const [axis, { dim, by }] of steps.entries()) if (dim >= 0) first[dim] += Math.max(0, by * (pattern.shape[axis] - 1));
  return Array.from(first);
}

function alongSteps(index: Int32Array, steps: Step[], { shape, lanes: count }: Pattern, lanes: Uint8Array | null, visit: Visit): void {
  const lanePosition = new Int32Array(shape.length);
  for (let lane = 0; lane < count; lane++) {
    visit(lane, index, !lanes || lanes[lane] === 1);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const { dim, by } = steps[axis];
      if (dim >= 0) index[dim] += by;
      if (++lanePosition[axis] < shape[axis]) break;
      if (dim >= 0) index[dim] -= by * shape[axis];
      lanePosition[axis] = 0;
    }
  }
}

function oneByOne(base: number, pattern: Pattern, tensor: Tensor, lanes: Uint8Array | null, visit: Visit): void {
  const offsets = offsetsOf(pattern);
  const index = new Int32Array(tensor.shape.length);
  const ratio = pattern.itemsize / tensor.itemsize;
  for (let lane = 0; lane < offsets.length; lane++) {
    const element = Math.floor((base + offsets[lane]) * ratio) - tensor.offset;
    visit(lane, placeOf(tensor, element, index), !lanes || lanes[lane] === 1);
  }
}

/** Along which dimension each axis of the block goes; null where it goes along none alone. */
function stepsOf(pattern: Pattern, tensor: Tensor): Step[] | null {
  if (!pattern.strides || pattern.itemsize !== tensor.itemsize) return null;
  const steps: Step[] = [];
  for (const [axis, stride] of pattern.strides.entries()) {
    if (!stride || pattern.shape[axis] === 1) {
      steps.push({ dim: -1, by: 0 });
      continue;
    }
    const dim = orderOf(tensor).find((candidate) => {
      const by = stride / tensor.strides[candidate];
      return Number.isInteger(by) && Math.abs(by) < tensor.shape[candidate];
    });
    if (dim === undefined) return null;
    steps.push({ dim, by: stride / tensor.strides[dim] });
  }
  return steps;
}

/** Whether no active lane would leave the tensor: one that does runs on in the next row instead. */
function staysInside(first: Int32Array, steps: Step[], pattern: Pattern, mask: Mask, tensor: Tensor): boolean {
  if (!mask.active) return true;
  const box = activeBox(mask, pattern);
  const low = Array.from(first);
  const high = Array.from(first);
  for (const [axis, { dim, by }] of steps.entries()) {
    if (dim < 0) continue;
    const ends = [box[axis][0] * by, (box[axis][1] - 1) * by];
    low[dim] += Math.min(...ends);
    high[dim] += Math.max(...ends);
  }
  return tensor.shape.every((size, dim) => low[dim] >= 0 && high[dim] < size);
}

function activeBox(mask: Mask, pattern: Pattern): [number, number][] {
  if (mask.box) return mask.box;
  if (!mask.bits) return pattern.shape.map((size) => [0, size]);
  let box = activeBoxes.get(mask);
  if (!box) {
    const lanes = maskLanes(mask, pattern) as Uint8Array;
    const bounds = pattern.shape.map((): [number, number] => [Infinity, 0]);
    forEachLane(pattern.shape, (lane, index) => {
      if (lanes[lane])
        for (const [axis, range] of bounds.entries()) {
          range[0] = Math.min(range[0], index[axis]);
          range[1] = Math.max(range[1], index[axis] + 1);
        }
    });
    activeBoxes.set(mask, (box = bounds));
  }
  return box;
}
