import { expect, test } from "vitest";
import type { App } from "../src/report/app";
import { foundNames, matchesOf } from "../src/report/data/found";
import type { Scene } from "../src/report/data/scene";
import { Search } from "../src/report/views/timeline/search";

/** Events as start, and whether on the GPU; all match. */
function searchOf(events: [start: number, gpu: boolean][]): Search {
  const scene = {
    count: events.length,
    data: {
      start: Float64Array.from(events, ([start]) => start),
      label: new Int32Array(events.length),
      owner: events.flatMap(([, gpu]) => (gpu ? [-1] : [])),
    },
    gpuEvent: Int32Array.from(events, ([, gpu]) => (gpu ? 0 : -1)),
    isTimed: () => true,
    labelsWith: () => Uint8Array.of(1),
  };
  return new Search({ scenes: [scene], origin: () => 0 } as unknown as App, "x", [Uint8Array.of(0)]);
}

test("matches on the GPU come first, in order of time, then the host's, and round the corner", () => {
  const search = searchOf([[0, false], [10, false], [5, true], [20, true]]); // prettier-ignore
  const seen: number[] = [];
  let at = search.next(-1, null, true);
  for (let step = 0; step < 5 && at; step++) {
    seen.push(at.row);
    at = search.next([0, 10, 5, 20][at.row], at, true);
  }
  expect(seen).toEqual([2, 3, 0, 1, 2]);
  expect(search.next(5, { scene: 0, row: 2 }, false)?.row).toBe(1);
  expect(search.next(-1, null, true)?.number).toBe(1);
  expect([search.count, search.gpuCount]).toEqual([4, 2]);
});

/** Two kernels of a graph whose capture has the rows 2 (a module) and 3 (an op in it), and a host event. */
const GRAPH = {
  count: 5,
  data: {
    start: Float64Array.of(0, 10, 0, 0, 5),
    duration: Float64Array.of(3, 7, 0, 0, 1),
    label: Int32Array.of(0, 0, 1, 2, 3),
    owner: Int32Array.of(3, 3),
  },
  gpuEvent: Int32Array.of(0, 1, -1, -1, -1),
  isTimed: (row: number) => row !== 2 && row !== 3,
  above: (row: number) => (row === 3 ? 2 : -1),
  labelsWith: (wanted: string) =>
    Uint8Array.from(["cutlass_f16", "nn.Module: Block_0", "aten::mm", "mmap"], (name) => +name.includes(wanted)),
} as unknown as Scene;

test.each([
  ["aten::mm", [2, 2, 0, 0, 0], 3],
  ["Block", [2, 2, 0, 0, 0], 2],
  ["cutlass", [1, 1, 0, 0, 0], -1],
])("kernels of a graph are found by their own name, their op and its module: %s", (wanted, flags, caller) => {
  expect([...matchesOf(GRAPH, wanted).flags]).toEqual(flags);
  expect(foundNames(GRAPH, 0, wanted)).toEqual([{ scene: 0, row: 1, caller, isGpu: true, count: 2, ns: 10 }]);
});

test("matches by an op come after those by a name", () => {
  const search = new Search({ scenes: [GRAPH], origin: () => 0 } as unknown as App, "mm", [new Uint8Array(4)]);
  const seen = [0, 1, 2].reduce<number[]>((rows) => {
    const last = rows.at(-1);
    const from = last === undefined ? null : { scene: 0, row: last };
    return [...rows, search.next(from ? GRAPH.data.start[from.row] : -1, from, true)!.row];
  }, []);
  expect([search.count, search.gpuCount]).toEqual([3, 2]);
  expect(seen).toEqual([4, 0, 1]);
});
