// The step with some findings mended: each subset of the first findings was simulated when the page was written.
import type { FixSubsets } from "../../shared/generated/records";

/** Time of the step with these rows of the table `findings` mended; rows that were not simulated change nothing. */
export function stepWith(subsets: FixSubsets, mended: Iterable<number>): number {
  let number = 0;
  for (const row of mended) {
    const place = subsets.rows.indexOf(row);
    if (place >= 0) number |= 1 << place;
  }
  return subsets.step_ms[number];
}

/** What one finding wins beside the others that are mended, whether it is among them or not. */
export function winsBeside(subsets: FixSubsets, row: number, mended: readonly number[]): number {
  const others = mended.filter((other) => other !== row);
  return stepWith(subsets, others) - stepWith(subsets, [...others, row]);
}
