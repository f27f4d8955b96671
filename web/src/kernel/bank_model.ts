// Shared memory as 32 banks of 4 bytes: the bank of each of a tile's elements, and how often a warp must go back to a bank.

export const BANKS = 32;
export const BANK_BYTES = 4;
const WARP = 32;
const MATRIX_ROWS = 8;
const MATRIX_BYTES = 16;
/** Bytes that one pass over the banks can serve: wider accesses of a warp are split into parts of so many lanes. */
const PASS_BYTES = BANKS * BANK_BYTES;

export type Direction = "row" | "column" | "matrix";
export interface Layout {
  rows: number;
  columns: number;
  bytes: number; // of an element
  padding: number; // elements after each row
  swizzle: boolean;
}
/** Triton's swizzle: vectors of `vector` elements change places by the row's phase. */
export interface Swizzle {
  vector: number;
  perPhase: number;
  maxPhase: number;
}
export interface Pass {
  lanes: { lane: number; row: number; column: number; words: number[] }[];
  /** Different words of each bank. */
  perBank: number[];
  /** Extra turns: the fullest bank's words less one. */
  conflicts: number;
}

/** Vectors of 16 bytes; as many phases as a row of the banks holds vectors, rows that share one put together. */
export function swizzleOf({ columns, bytes }: Layout): Swizzle {
  const vector = Math.max(1, Math.min(columns, Math.floor(MATRIX_BYTES / bytes)));
  const rowBytes = columns * bytes;
  const perPhase = Math.max(1, Math.floor(PASS_BYTES / rowBytes));
  const phases = Math.max(1, Math.min(MATRIX_ROWS / Math.min(MATRIX_ROWS, perPhase), Math.floor(columns / vector)));
  return { vector, perPhase, maxPhase: 2 ** Math.floor(Math.log2(phases)) };
}

/** Byte of an element from the tile's beginning. */
export function addressOf(layout: Layout, row: number, column: number, swizzle = swizzleOf(layout)): number {
  let at = column;
  if (layout.swizzle) {
    const phase = Math.floor(row / swizzle.perPhase) % swizzle.maxPhase;
    at = (Math.floor(column / swizzle.vector) ^ phase) * swizzle.vector + (column % swizzle.vector);
  }
  return (row * (layout.columns + layout.padding) + at) * layout.bytes;
}

interface Reach {
  row: number;
  column: number;
  elements: number;
}

/** The lanes of every access of a warp (or, for a matrix, of every 8 × 16 bytes) that together read the whole tile. */
function accesses(layout: Layout, direction: Direction): Reach[][] {
  const { rows, columns, bytes } = layout;
  const lanes: Reach[] = [];
  if (direction === "matrix") {
    const elements = Math.max(1, Math.min(columns, Math.floor(MATRIX_BYTES / bytes)));
    for (let column = 0; column + elements <= columns; column += elements)
      for (let row = 0; row < rows; row++) lanes.push({ row, column, elements });
    // A matrix ends at the last row of the tile: the next one begins in the next columns.
    const matrices: Reach[][] = [];
    for (let at = 0; at < lanes.length; at += rows)
      for (let row = 0; row < rows; row += MATRIX_ROWS) matrices.push(lanes.slice(at + row, at + Math.min(rows, row + MATRIX_ROWS)));
    return matrices;
  }
  if (direction === "row")
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) lanes.push({ row, column, elements: 1 });
  else for (let column = 0; column < columns; column++) for (let row = 0; row < rows; row++) lanes.push({ row, column, elements: 1 });
  const warps: Reach[][] = [];
  for (let at = 0; at < lanes.length; at += WARP) warps.push(lanes.slice(at, at + WARP));
  return warps;
}

/** Every pass over the banks, in order. */
export function passes(layout: Layout, direction: Direction): Pass[] {
  const swizzle = swizzleOf(layout);
  const allPasses: Pass[] = [];
  for (const access of accesses(layout, direction)) {
    const laneBytes = (access[0]?.elements ?? 1) * layout.bytes;
    const lanes = Math.max(1, Math.floor(PASS_BYTES / Math.max(BANK_BYTES, laneBytes)));
    for (let at = 0; at < access.length; at += lanes) allPasses.push(pass(layout, swizzle, access.slice(at, at + lanes), at));
  }
  return allPasses;
}

function pass(layout: Layout, swizzle: Swizzle, lanes: Reach[], first: number): Pass {
  const words = new Set<number>();
  const reached = lanes.map(({ row, column, elements }, at) => {
    const own = new Set<number>();
    for (let element = 0; element < elements; element++) {
      const address = addressOf(layout, row, column + element, swizzle);
      for (let byte = address; byte < address + layout.bytes; byte += BANK_BYTES) own.add(Math.floor(byte / BANK_BYTES));
    }
    for (const word of own) words.add(word);
    return { lane: first + at, row, column, words: [...own] };
  });
  const perBank = new Array<number>(BANKS).fill(0);
  for (const word of words) perBank[word % BANKS]++;
  return { lanes: reached, perBank, conflicts: Math.max(1, ...perBank) - 1 };
}

export function conflictsOf(allPasses: Pass[]): number {
  return allPasses.reduce((total, { conflicts }) => total + conflicts, 0);
}

/** Bytes of the whole tile, padding included. */
export function sizeOf({ rows, columns, padding, bytes }: Layout): number {
  return (rows * (columns + padding) - padding) * bytes;
}
