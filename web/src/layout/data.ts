// The data of the page as warplens_lab/pages/layout_page.py packs it.
import { readInts, unpack } from "../shared/blocks";
import type { LayoutHeader, PackedLayoutAccess, PackedLayoutPanel } from "../shared/generated/records";

export interface Access extends Omit<PackedLayoutAccess, "lanes" | "cells"> {
  /** An entry for every lane of every instruction. */
  instruction: Int32Array;
  wavefront: Int32Array;
  warp: Int32Array;
  lane: Int32Array;
  byte: Int32Array;
  cells: Int32Array;
  /** Entries of each wavefront. */
  waves: number[][];
}
export interface Panel extends Omit<PackedLayoutPanel, "offsets" | "held" | "accesses"> {
  /** In elements; null for a layout over threads. */
  offsets: Int32Array | null;
  /** By thread and register: the element; null for a layout in memory. */
  held: Int32Array | null;
  registers: number;
  /** By element: the threads × registers that hold it. */
  holders: number[][];
  accesses: Access[];
}
export interface Page {
  header: LayoutHeader;
  panels: Panel[];
}

export const WORD_BYTES = 4;

export async function load(base64: string): Promise<Page> {
  const unpacked = await unpack(base64);
  const header = unpacked.header as LayoutHeader;
  return { header, panels: header.panels.map((panel) => panelOf(panel, unpacked.bytes)) };
}

function panelOf(packed: PackedLayoutPanel, bytes: Uint8Array): Panel {
  const held = packed.held && readInts(packed.held, bytes);
  const holders: number[][] = Array.from({ length: held ? packed.rows * packed.columns : 0 }, () => []);
  held?.forEach((element, holder) => holders[element]?.push(holder));
  return {
    ...packed,
    offsets: packed.offsets && readInts(packed.offsets, bytes),
    held,
    registers: held && packed.threads ? held.length / packed.threads : 0,
    holders,
    accesses: packed.accesses.map((access) => accessOf(access, bytes)),
  };
}

function accessOf(packed: PackedLayoutAccess, bytes: Uint8Array): Access {
  const ints = (name: string): Int32Array => readInts(packed.lanes[name], bytes);
  const wavefront = ints("wavefront");
  const waves = new Map<number, number[]>();
  wavefront.forEach((wave, entry) => waves.set(wave, [...(waves.get(wave) ?? []), entry]));
  return {
    ...packed,
    instruction: ints("instruction"),
    wavefront,
    warp: ints("warp"),
    lane: ints("lane"),
    byte: ints("byte"),
    cells: readInts(packed.cells, bytes),
    waves: [...waves.values()],
  };
}

/** Words of shared memory that an entry of an access needs. */
export function wordsOf(access: Access, entry: number): number[] {
  const first = Math.floor(access.byte[entry] / WORD_BYTES);
  const last = Math.floor((access.byte[entry] + access.vector_bits / 8 - 1) / WORD_BYTES);
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}
/** Elements of an entry. */
export function elementsOf(access: Access, entry: number): Int32Array {
  return access.cells.subarray(entry * access.vector, (entry + 1) * access.vector);
}
/** Different words of each bank that a wavefront needs. */
export function wordsPerBank(access: Access, wave: number, banks: number): Set<number>[] {
  const perBank = Array.from({ length: banks }, () => new Set<number>());
  for (const entry of access.waves[wave] ?? []) for (const word of wordsOf(access, entry)) perBank[word % banks].add(word);
  return perBank;
}
