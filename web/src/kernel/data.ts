// The data of the page as warplens_lab/pages/kernel_page.py packs it; a launch's events are read when it is first shown.
import { readInts, readNumbers, unpack } from "../shared/blocks";
import type { ColumnSpec, KernelHeader, PackedLaunch, PackedMask, PackedPattern, PackedTensor } from "../shared/generated/records";

export type { Fault, NumberError, Site } from "../shared/generated/records";
export type ProgramId = [number, number, number];
export type Numbers = Float32Array | Float64Array;

export interface Tensor extends Omit<PackedTensor, "before" | "after"> {
  before: Numbers | null;
  after: Numbers | null;
}
export interface Pattern extends Omit<PackedPattern, "offsets"> {
  offsets: Float64Array | null;
  lanes: number;
}
export interface Mask extends Omit<PackedMask, "bits"> {
  bits: Int32Array | null;
}
export interface Events {
  ops: string[];
  shapes: number[][];
  program: Int32Array;
  op: Int32Array;
  site: Int32Array;
  tensor: Int32Array;
  base: Float64Array;
  pattern: Int32Array;
  mask: Int32Array;
  shape: Int32Array;
  value: Int32Array;
}
export interface Launch extends Omit<PackedLaunch, "tensors" | "patterns" | "masks" | "events"> {
  tensors: Tensor[];
  patterns: Pattern[];
  masks: Mask[];
  events: Events | null;
  /** Values kept of one event, by its number among the kept ones. */
  value(number: number): Numbers | null;
}
export interface Scene {
  header: KernelHeader;
  launch(at: number): Launch;
}

export async function load(base64: string): Promise<Scene> {
  const { header, bytes } = await unpack(base64);
  const whole = header as KernelHeader;
  const decoded = new Map<number, Launch>();
  return {
    header: whole,
    launch(at) {
      const launch = decoded.get(at) ?? decodeLaunch(whole.launches[at], bytes);
      decoded.set(at, launch);
      return launch;
    },
  };
}

export function product(sizes: number[]): number {
  return sizes.reduce((total, size) => total * size, 1);
}

function decodeLaunch(packed: PackedLaunch, bytes: Uint8Array): Launch {
  const { events } = packed;
  const ints = (name: string): Int32Array => readInts((events as NonNullable<typeof events>).columns[name], bytes);
  return {
    ...packed,
    tensors: packed.tensors.map((tensor) => ({
      ...tensor,
      // A tensor without dimensions is drawn as one cell.
      shape: tensor.shape.length ? tensor.shape : [1],
      strides: tensor.shape.length ? tensor.strides : [1],
      before: numbers(tensor.before, bytes),
      after: numbers(tensor.after, bytes),
    })),
    patterns: packed.patterns.map((pattern) => ({
      ...pattern,
      offsets: pattern.offsets && readNumbers(pattern.offsets, bytes),
      lanes: product(pattern.shape),
    })),
    masks: packed.masks.map((mask) => ({ ...mask, bits: mask.bits && readInts(mask.bits, bytes) })),
    events: events && {
      ops: events.ops,
      shapes: events.shapes,
      program: ints("program"),
      op: ints("op"),
      site: ints("site"),
      tensor: ints("tensor"),
      base: readNumbers(events.columns["base"], bytes),
      pattern: ints("pattern"),
      mask: ints("mask"),
      shape: ints("shape"),
      value: ints("value"),
    },
    value: (number) => (events && number >= 0 ? numbers(events.values[number], bytes) : null),
  };
}

function numbers(spec: ColumnSpec | null, bytes: Uint8Array): Numbers | null {
  if (!spec) return null;
  return spec.single ? new Float32Array(readInts(spec, bytes).buffer) : readNumbers(spec, bytes);
}
