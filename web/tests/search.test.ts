import { expect, test } from "vitest";
import type { App } from "../src/report/app";
import { Search } from "../src/report/views/timeline/search";

/** Events as start, and whether on the GPU; all match. */
function searchOf(events: [start: number, gpu: boolean][]): Search {
  const scene = {
    count: events.length,
    data: { start: Float64Array.from(events, ([start]) => start), label: new Int32Array(events.length) },
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
