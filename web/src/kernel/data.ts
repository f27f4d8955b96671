// The data of the page as outputs/html/kernel_page.py packs it; a launch's events are read when it is first shown.
import { readInts, readNumbers, unpack, type Spec } from "../shared/blocks";

export type ProgramId = [number, number, number];
type NumbersSpec = (Spec & { single?: boolean }) | null;
export type Numbers = Float32Array | Float64Array;

export interface Tensor {
  name: string;
  dtype: string;
  shape: number[];
  strides: number[];
  offset: number;
  storage: number;
  itemsize: number;
  written: boolean;
  before: Numbers | null;
  after: Numbers | null;
}
export interface Pattern {
  itemsize: number;
  shape: number[];
  strides: number[] | null;
  offsets: Float64Array | null;
  lanes: number;
}
export interface Mask {
  active: number;
  box: [number, number][] | null;
  bits: Int32Array | null;
}
export type Place = [file: string, line: number, func: string];
export interface Site {
  file: string;
  line: number;
  function: string;
  statement: string;
  path: Place[];
  operands: number[][];
}
export interface Source {
  file: string;
  line: number;
  text: string[];
}
export interface Access {
  site: number;
  op: string;
  tensor: number;
  accesses: number;
  lanes: number;
  active_lanes: number;
  true_bytes: number;
  sectors: number;
  minimum_sectors: number;
  flop: number;
}
export interface Reuse {
  tensors: string[];
  loaded_bytes: number;
  read_bytes: number;
  written_bytes: number;
  unique_bytes: number;
  shared_bytes: number;
}
export interface Fault {
  kind: string;
  meaning: string;
  site: number;
  tensor: string;
  program: ProgramId;
  index: number;
  message: string;
  elements: number;
  programs: number;
  other_program: ProgramId | null;
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
interface Plain {
  index: number;
  kernel: string;
  file: string;
  line: number;
  called_from: string;
  grid: ProgramId;
  traced_programs: number;
  constants: [string, string][];
  totals: Record<string, number | null>;
  sites: Site[];
  sources: Source[];
  accesses: Access[];
  reuse: Reuse[];
  faults: Fault[];
  notes: string[];
}
interface PackedLaunch extends Plain {
  tensors: (Omit<Tensor, "before" | "after"> & { before: NumbersSpec; after: NumbersSpec })[];
  patterns: (Omit<Pattern, "offsets" | "lanes"> & { offsets: Spec | null })[];
  masks: (Omit<Mask, "bits"> & { bits: Spec | null })[];
  events: { ops: string[]; shapes: number[][]; columns: Record<string, Spec>; values: NumbersSpec[] } | null;
}
export interface Header {
  warplens: string;
  title: string;
  triton: string;
  mode: string;
  sampling: string;
  notes: string[];
  launches: PackedLaunch[];
}
export interface Launch extends Plain {
  tensors: Tensor[];
  patterns: Pattern[];
  masks: Mask[];
  events: Events | null;
  /** Values kept of one event, by its number among the kept ones. */
  value(number: number): Numbers | null;
}
export interface Scene {
  header: Header;
  launch(at: number): Launch;
}

export async function load(base64: string): Promise<Scene> {
  const { header, bytes } = await unpack(base64);
  const whole = header as Header;
  const made = new Map<number, Launch>();
  return {
    header: whole,
    launch(at) {
      const found = made.get(at) ?? decodeLaunch(whole.launches[at], bytes);
      made.set(at, found);
      return found;
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

function numbers(spec: NumbersSpec, bytes: Uint8Array): Numbers | null {
  if (!spec) return null;
  return spec.single ? new Float32Array(readInts(spec, bytes).buffer) : readNumbers(spec, bytes);
}
