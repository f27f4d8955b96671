// Unions of half-open intervals [start, end); the same definitions as model/intervals.py.

export interface Union {
  starts: Float64Array;
  ends: Float64Array;
}

/** The union of the intervals of some rows; empty ones count for nothing. */
export function union(rows: ArrayLike<number>, start: Float64Array, duration: Float64Array): Union {
  const order = Array.from(rows).filter((row) => duration[row] > 0);
  order.sort((a, b) => start[a] - start[b]);
  const starts: number[] = [];
  const ends: number[] = [];
  for (const row of order) {
    const end = start[row] + duration[row];
    const last = ends.length - 1;
    if (last >= 0 && start[row] <= ends[last]) ends[last] = Math.max(ends[last], end);
    else {
      starts.push(start[row]);
      ends.push(end);
    }
  }
  return { starts: Float64Array.from(starts), ends: Float64Array.from(ends) };
}

export function clip({ starts, ends }: Union, from: number, to: number): Union {
  const keep: number[] = [];
  for (let i = 0; i < starts.length; i++) if (ends[i] > from && starts[i] < to) keep.push(i);
  return {
    starts: Float64Array.from(keep, (i) => Math.max(starts[i], from)),
    ends: Float64Array.from(keep, (i) => Math.min(ends[i], to)),
  };
}

export function length({ starts, ends }: Union): number {
  let sum = 0;
  for (let i = 0; i < starts.length; i++) sum += ends[i] - starts[i];
  return sum;
}

/** The parts of `a` that are in none of `b`. */
export function subtract(a: Union, b: Union): Union {
  const starts: number[] = [];
  const ends: number[] = [];
  let j = 0;
  for (let i = 0; i < a.starts.length; i++) {
    let from = a.starts[i];
    while (j < b.starts.length && b.ends[j] <= from) j++;
    for (let k = j; k < b.starts.length && b.starts[k] < a.ends[i]; k++) {
      if (b.starts[k] > from) {
        starts.push(from);
        ends.push(b.starts[k]);
      }
      from = Math.max(from, b.ends[k]);
    }
    if (from < a.ends[i]) {
      starts.push(from);
      ends.push(a.ends[i]);
    }
  }
  return { starts: Float64Array.from(starts), ends: Float64Array.from(ends) };
}

export function join(a: Union, b: Union): Union {
  const count = a.starts.length + b.starts.length;
  const starts = new Float64Array(count);
  const lengths = new Float64Array(count);
  for (const [{ starts: from, ends }, at] of [
    [a, 0],
    [b, a.starts.length],
  ] as const) {
    starts.set(from, at);
    lengths.set(
      ends.map((end, i) => end - from[i]),
      at,
    );
  }
  return union(
    Uint32Array.from({ length: count }, (_, i) => i),
    starts,
    lengths,
  );
}
