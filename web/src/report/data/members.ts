// From the row of a table to the GPU events behind it.
import type { Scene } from "./scene";

/** The longest GPU event (its row) that belongs to a row of a table of the whole trace; null where none is known. */
export function longestEvent(scene: Scene, table: string, row: number): number | null {
  const rowOf = scene.data.members[table];
  if (!rowOf) return null;
  const { gpuRow, duration } = scene.data;
  let longest: number | null = null;
  for (let event = 0; event < rowOf.length; event++) {
    if (rowOf[event] === row && (longest === null || duration[gpuRow[event]] > duration[longest])) longest = gpuRow[event];
  }
  return longest;
}
