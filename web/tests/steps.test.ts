import { expect, test } from "vitest";
import type { Scene } from "../src/report/data/scene";
import { endlessStep, usualSteps } from "../src/report/data/step_diff";
import { stepWindows } from "../src/report/selection";

/** GPU events as start, duration and step. */
function sceneOf(events: number[][]): Scene {
  const column = (at: number): Float64Array => Float64Array.from(events, (event) => event[at]);
  const numbers = [...new Set(events.map((event) => event[2]))].filter((step) => step >= 0);
  return {
    hasGpu: true,
    steps: numbers.map((step) => ({ step, name: `step ${step}`, start: 0, end: 0 })),
    data: { gpuRow: Int32Array.from(events, (_, row) => row), start: column(0), duration: column(1), step: Int32Array.from(column(2)) },
  } as unknown as Scene;
}
const windows = (events: number[][]): number[][] => stepWindows(sceneOf(events)).map(({ from, to }) => [from, to]);

test("a step reaches to the next one's first kernel, the last one to the end of its own work", () => {
  const events = [[0, 90, 0], [100, 90, 1], [200, 80, 2], [300, 5000, -1]]; // prettier-ignore
  expect(windows(events)).toEqual([[0, 100], [100, 200], [200, 280]]); // prettier-ignore
});

test("what overlaps the next step is cut from the last step too", () => {
  const events = [0, 1, 2].flatMap((step) => [[100 * step, 90, step], [100 * step + 80, 60, step]]); // prettier-ignore
  expect(windows(events)).toEqual([[0, 100], [100, 200], [200, 300]]); // prettier-ignore
});

test("two steps do not tell how far work overlaps", () => {
  expect(windows([[0, 140, 0], [100, 140, 1]])).toEqual([[0, 100], [100, 240]]); // prettier-ignore
});

test("the slowest step is compared with the middle one, and the last, which nothing ends, with none", () => {
  const times = [10, 30, 12, 11, 90].map((ms, step) => ({ step, ms }));
  expect(usualSteps(times, 4)).toEqual([3, 1]);
  expect(usualSteps(times, null)).toEqual([2, 4]);
  expect(usualSteps(times.slice(3), 4)).toEqual([3, 4]);
  expect(usualSteps(times.slice(4), 4)).toBeNull();
  expect(endlessStep(sceneOf([[0, 90, 7], [100, 90, 5], [50, 5, 6]]))).toBe(5); // prettier-ignore
  expect(endlessStep({ ...sceneOf([]), hasGpu: false } as Scene)).toBeNull();
});
