// How a tensor is laid out on a map: two of its dimensions as rows and columns, the others fixed; a vector folded into rows.
import type { MapChoice } from "./state";
import type { Tensor } from "./data";

export interface Mapping {
  row: number; // dimension; -1: the vector `column` is folded
  column: number;
  /** Per dimension the index that is shown; rows and columns have none. */
  fixed: number[];
  follows: boolean[];
  width: number; // of a folded vector
}
export interface Window {
  top: number;
  left: number;
  rows: number;
  columns: number;
}

const NARROWEST = 32;
const NO_FOLD = 96; // a vector up to this length is one row

export function mappingOf(tensor: Tensor, choice: MapChoice | null): Mapping {
  const dims = tensor.shape.length;
  const wide = tensor.shape.map((_, dim) => dim).filter((dim) => tensor.shape[dim] > 1);
  const fits = choice && choice.row < dims && choice.column < dims && choice.row !== choice.column;
  const [row, column] = fits ? [choice.row, choice.column] : wide.length < 2 ? [-1, wide[0] ?? dims - 1] : wide.slice(-2);
  const chosen = choice?.fixed ?? [];
  const follows = tensor.shape.map((_, dim) => dim !== row && dim !== column && (chosen[dim] ?? null) === null);
  const fixed = tensor.shape.map((size, dim) => (follows[dim] ? 0 : Math.min(size - 1, chosen[dim] ?? 0)));
  return { row, column, fixed, follows, width: foldWidth(tensor.shape[column]) };
}

export function choiceOf({ row, column, fixed, follows }: Mapping): MapChoice {
  return { row, column, fixed: fixed.map((at, dim) => (follows[dim] ? null : at)) };
}

function foldWidth(size: number): number {
  return size <= NO_FOLD ? Math.max(1, size) : Math.max(NARROWEST, 2 ** Math.ceil(Math.log2(Math.sqrt(2 * size))));
}

/** Rows and columns of the whole tensor. */
export function wholeOf({ shape }: Tensor, { row, column, width }: Mapping): Window {
  if (row >= 0) return { top: 0, left: 0, rows: Math.max(1, shape[row]), columns: Math.max(1, shape[column]) };
  return { top: 0, left: 0, rows: Math.max(1, Math.ceil(shape[column] / width)), columns: width };
}

export function rowOf({ row, column, width }: Mapping, index: Int32Array): number {
  return row >= 0 ? index[row] : Math.floor(index[column] / width);
}
export function columnOf({ row, column, width }: Mapping, index: Int32Array): number {
  return row >= 0 ? index[column] : ((index[column] % width) + width) % width;
}

/** Whether an element is on the map: its other dimensions are those that are shown. */
export function isOnMap({ row, column, fixed }: Mapping, index: Int32Array): boolean {
  for (let dim = 0; dim < index.length; dim++) if (dim !== row && dim !== column && index[dim] !== fixed[dim]) return false;
  return true;
}

/** The tensor's index at a row and a column of the map. */
export function indexAt({ row, column, fixed, width }: Mapping, atRow: number, atColumn: number): Int32Array {
  const index = Int32Array.from(fixed);
  if (row >= 0) index[row] = atRow;
  index[column] = row >= 0 ? atColumn : atRow * width + atColumn;
  return index;
}
