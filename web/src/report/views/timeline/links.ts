// From host calls to the GPU work that they launched.
import type { Scene } from "../../data/scene";

/** GPU events launched by a host event or by anything inside it, in order of the calls. */
export function launchedInside(scene: Scene, row: number): number[] {
  const { lane, start, depth } = scene.data;
  const end = scene.end(row);
  const linked = [...scene.launchedBy(row)];
  // A lane's rows are in order of start: what is inside follows directly.
  for (let inner = row + 1; inner < scene.count && lane[inner] === lane[row] && start[inner] < end; inner++) {
    if (depth[inner] > depth[row]) linked.push(...scene.launchedBy(inner));
  }
  return linked;
}
