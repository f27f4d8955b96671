// Numbers in rows and columns as a picture: what falls on one pixel is shown by its largest value.

export interface Grid {
  rows: number;
  columns: number;
  /** Row by row; NaN where there is nothing. */
  values: Float64Array;
}

export interface Binned extends Grid {
  /** Per bin the cell of the grid that it shows, -1 where all are empty. */
  cells: Int32Array;
  perRow: number;
  perColumn: number;
}

/** At most so many rows and columns. */
export function binned(grid: Grid, mostRows: number, mostColumns: number): Binned {
  const perRow = Math.max(1, Math.ceil(grid.rows / Math.max(1, mostRows)));
  const perColumn = Math.max(1, Math.ceil(grid.columns / Math.max(1, mostColumns)));
  const [rows, columns] = [Math.ceil(grid.rows / perRow), Math.ceil(grid.columns / perColumn)];
  const values = new Float64Array(rows * columns).fill(NaN);
  const cells = new Int32Array(rows * columns).fill(-1);
  for (let row = 0; row < grid.rows; row++) {
    for (let column = 0; column < grid.columns; column++) {
      const cell = row * grid.columns + column;
      const bin = Math.floor(row / perRow) * columns + Math.floor(column / perColumn);
      const value = grid.values[cell];
      if (Number.isNaN(value) || value <= values[bin]) continue;
      values[bin] = value;
      cells[bin] = cell;
    }
  }
  return { rows, columns, values, cells, perRow, perColumn };
}

export interface Scale {
  low: number;
  high: number;
  /** Whether some values are beyond `high`. */
  clipped: boolean;
}

const MOST = 0.99;
const FAR = 1.5;
const ENOUGH = 50; // values: fewer have no few that are far out

/** From the least value to the largest; a few that are far out do not take the colours of all others. */
export function scaleOf(values: ArrayLike<number>, fromZero = false): Scale {
  const sorted = Array.from(values)
    .filter((value) => !Number.isNaN(value))
    .sort((a, b) => a - b);
  if (!sorted.length) return { low: 0, high: 1, clipped: false };
  const [least, largest] = [sorted[0], sorted[sorted.length - 1]];
  const usual = sorted[Math.floor(MOST * (sorted.length - 1))];
  const clipped = sorted.length >= ENOUGH && largest - least > FAR * (usual - least) && usual > least;
  return { low: fromZero ? 0 : least, high: clipped ? usual : largest, clipped };
}

// Lightness alone tells the order, so that every kind of colour vision reads it; the hue helps.
const TONES = ["#ffffd9", "#d6efb3", "#84cebb", "#2fa4c2", "#2260a9", "#081d58"];

export function tones(dark: boolean): string[] {
  return dark ? [...TONES].reverse() : TONES;
}

/** Where a value is on the scale, from 0 to 1. */
export function shareOf(value: number, { low, high }: Scale): number {
  return high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5;
}

/** Every how many labels one fits. */
export function labelStep(count: number, pixelsEach: number, room: number): number {
  const least = Math.max(1, Math.ceil(room / Math.max(0.01, pixelsEach)));
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= least) ?? least;
  return Math.min(Math.max(1, step), Math.max(1, count));
}
