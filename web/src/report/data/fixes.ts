// The step with some findings mended: each subset of the first findings was simulated when the page was written.
import type { FixSubsets } from "../../shared/generated/records";

/** A simulated time: expected, at least and at most. */
export interface Interval {
  ms: number;
  low: number;
  high: number;
}

/** Time of the step with these rows of the table `findings` mended; rows that were not simulated change nothing. */
export function stepWith(subsets: FixSubsets, mended: Iterable<number>): Interval {
  const at = subsetOf(subsets, mended);
  if (!at) return { ms: subsets.step_ms[0], low: subsets.unchanged_ms[0], high: subsets.unchanged_ms[1] };
  const [ms, fast, slow] = [subsets.step_ms[at], subsets.fast_ms[at], subsets.slow_ms[at]];
  const found = interval(subsets, ms, [fast, slow], subsets.step_ms[0] - ms);
  return { ...found, low: Math.max(0, found.low) };
}

/** What one finding wins beside the others that are mended, whether it is among them or not. */
export function winsBeside(subsets: FixSubsets, row: number, mended: readonly number[]): Interval {
  const others = mended.filter((other) => other !== row);
  const [before, after] = [subsetOf(subsets, others), subsetOf(subsets, [...others, row])];
  const [ms, fast, slow] = [subsets.step_ms, subsets.fast_ms, subsets.slow_ms].map((steps) => steps[before] - steps[after]);
  const found = interval(subsets, ms, [fast, slow], ms);
  return { ...found, high: Math.min(found.high, subsets.unchanged_ms[1]) };
}

function subsetOf(subsets: FixSubsets, mended: Iterable<number>): number {
  let number = 0;
  for (const row of mended) {
    const place = subsets.rows.indexOf(row);
    if (place >= 0) number |= 1 << place;
  }
  return number;
}

/** As the table what_if has it: the hosts that fit, and what simulated gains are off by. */
function interval(subsets: FixSubsets, ms: number, others: readonly number[], gain: number): Interval {
  const error = Math.hypot(subsets.share_of_gain * gain, subsets.share_of_step * subsets.step_ms[0]);
  return {
    ms,
    low: ms - Math.hypot(ms - Math.min(ms, ...others), error),
    high: ms + Math.hypot(Math.max(ms, ...others) - ms, error),
  };
}
