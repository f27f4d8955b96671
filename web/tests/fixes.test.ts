import { expect, test } from "vitest";
import { stepWith, winsBeside } from "../src/report/data/fixes";

/** Findings 0, 2 and 5: alone they win 4, 3 and 1 ms; 0 and 2 overlap, and 5 wins nothing once 0 is mended. */
const SUBSETS = {
  rows: [0, 2, 5],
  out_of: 4,
  step_ms: [10, 6, 7, 5, 9, 6, 6, 5],
  fast_ms: [8, 5, 6, 4, 7, 5, 5, 4],
  slow_ms: [12, 7, 8, 6, 11, 7, 7, 6],
  unchanged_ms: [7.5, 12.5] as [number, number],
  share_of_gain: 0.2,
  share_of_step: 0.025,
};

test("each subset of the findings has a time of its own, in whatever order they were ticked", () => {
  expect(stepWith(SUBSETS, []).ms).toBe(10);
  expect(stepWith(SUBSETS, [2]).ms).toBe(7);
  expect(stepWith(SUBSETS, [2, 0]).ms).toBe(5);
  expect(stepWith(SUBSETS, [5, 0]).ms).toBe(6);
  expect(stepWith(SUBSETS, [0, 2, 5]).ms).toBe(5);
});

test("findings that were not simulated change nothing", () => {
  expect(stepWith(SUBSETS, [1, 99]).ms).toBe(10);
  expect(stepWith(SUBSETS, [1, 2, 99]).ms).toBe(7);
});

test("what a finding wins depends on the others that are ticked", () => {
  expect(winsBeside(SUBSETS, 0, []).ms).toBe(4);
  expect(winsBeside(SUBSETS, 0, [2]).ms).toBe(2);
  expect(winsBeside(SUBSETS, 0, [0, 2]).ms).toBe(2);
  expect(winsBeside(SUBSETS, 5, [5, 0]).ms).toBe(0);
});

test("the step as it is has the interval of the clock, and changed ones that of the hosts that fit and the model's error", () => {
  expect(stepWith(SUBSETS, [])).toEqual({ ms: 10, low: 7.5, high: 12.5 });
  const error = Math.hypot(0.2 * 4, 0.025 * 10);
  expect(stepWith(SUBSETS, [0])).toEqual({ ms: 6, low: 6 - Math.hypot(1, error), high: 6 + Math.hypot(1, error) });
  expect(winsBeside(SUBSETS, 0, [])).toEqual({ ms: 4, low: 4 - Math.hypot(1, error), high: 4 + Math.hypot(1, error) });
});
