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

/** From the first to the last of the GPU events behind a row of a table, those of one step (-1: without steps); null for none. */
export function spanOfEvents(scene: Scene, table: string, row: number, step: number): [number, number] | null {
  const { gpuRow, members, step: steps } = scene.data;
  let span: [number, number] | null = null;
  (members[table] ?? []).forEach((of, event) => {
    const place = gpuRow[event];
    if (of !== row || steps[place] !== step) return;
    span = [Math.min(span?.[0] ?? Infinity, scene.start(place)), Math.max(span?.[1] ?? -Infinity, scene.end(place))];
  });
  return span;
}
