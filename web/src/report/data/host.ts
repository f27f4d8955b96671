// The host's side of ops: which op is around which, and what each cost the host itself.
import { NONE, type Scene } from "./scene";

export interface OpCalls {
  /** The rows of op calls. */
  rows: Uint32Array;
  /** Per event the nearest op around it (ops: strictly around), -1 for none. */
  around: Int32Array;
  /** Op calls inside a call of the same op. */
  recursive: Uint8Array;
  /** Host time inside the call but in no inner op. */
  selfNs: Float64Array;
}

const callsByScene = new WeakMap<Scene, OpCalls>();

export function opCalls(scene: Scene): OpCalls {
  let calls = callsByScene.get(scene);
  if (!calls) callsByScene.set(scene, (calls = findCalls(scene)));
  return calls;
}

function findCalls(scene: Scene): OpCalls {
  const { parent, label, duration } = scene.data;
  const isOp = scene.data.header.labels.kind.map((kind) => scene.kinds[kind] === "op");
  const around = new Int32Array(scene.count).fill(NONE);
  const recursive = new Uint8Array(scene.count);
  const inner = new Float64Array(scene.count);
  const rows: number[] = [];
  // Parents come before their children, except the few that the recorder tangled: those are walked.
  for (let row = 0; row < scene.count; row++) {
    let at = parent[row];
    while (at >= 0 && !isOp[label[at]]) at = at < row && around[at] !== NONE ? around[at] : parent[at];
    around[row] = at;
    if (!isOp[label[row]]) continue;
    rows.push(row);
    if (at >= 0) inner[at] += duration[row];
    for (let outer = at; outer >= 0; outer = around[outer]) {
      if (label[outer] === label[row]) {
        recursive[row] = 1;
        break;
      }
      if (outer >= row) break;
    }
  }
  const selfNs = inner.map((spent, row) => Math.max(0, duration[row] - spent));
  return { rows: Uint32Array.from(rows), around, recursive, selfNs };
}
