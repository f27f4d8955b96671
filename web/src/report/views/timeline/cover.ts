// How much of a stretch of time is covered by some events: their union, with running sums.
import type { Union } from "../../data/intervals";

export class Cover {
  private readonly before: Float64Array;

  constructor(private readonly merged: Union) {
    const { starts, ends } = merged;
    this.before = new Float64Array(starts.length + 1);
    for (let i = 0; i < starts.length; i++) this.before[i + 1] = this.before[i] + ends[i] - starts[i];
  }

  /** The union of events in order of their start, which spares the sorting. */
  static ofSorted(start: Float64Array, duration: Float64Array, first: number, count: number): Cover {
    const starts = new Float64Array(count);
    const ends = new Float64Array(count);
    let last = -1;
    for (let row = first; row < first + count; row++) {
      const end = start[row] + duration[row];
      if (last >= 0 && start[row] <= ends[last]) {
        if (end > ends[last]) ends[last] = end;
      } else {
        starts[++last] = start[row];
        ends[last] = end;
      }
    }
    return new Cover({ starts: starts.slice(0, last + 1), ends: ends.slice(0, last + 1) });
  }

  busy(from: number, to: number): number {
    return to > from ? this.until(to) - this.until(from) : 0;
  }

  private until(time: number): number {
    const { starts, ends } = this.merged;
    const next = lowerBound(starts, time);
    if (!next) return 0;
    return this.before[next] - Math.max(0, ends[next - 1] - time);
  }
}

/** The first place in sorted values with at least this value. */
export function lowerBound(values: Float64Array, value: number, low = 0, high = values.length): number {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
