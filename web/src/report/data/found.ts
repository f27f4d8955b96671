// The names that a search finds, each with its time and its longest event.
import type { Scene } from "./scene";

export interface FoundName {
  scene: number;
  /** The longest event of this name. */
  row: number;
  isGpu: boolean;
  count: number;
  ns: number;
}

/** `wanted` in lower case. */
export function foundNames(scene: Scene, number: number, wanted: string): FoundName[] {
  const flags = scene.labelsWith(wanted);
  const { label, duration } = scene.data;
  const byLabel = new Map<number, FoundName>();
  for (let row = 0; row < scene.count; row++) {
    if (!flags[label[row]] || !scene.isTimed(row)) continue;
    const name = byLabel.get(label[row]);
    if (!name) byLabel.set(label[row], { scene: number, row, isGpu: scene.gpuEvent[row] >= 0, count: 1, ns: duration[row] });
    else {
      name.count++;
      name.ns += duration[row];
      if (duration[row] > duration[name.row]) name.row = row;
    }
  }
  return [...byLabel.values()];
}
