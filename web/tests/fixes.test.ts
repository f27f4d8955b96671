import { expect, test } from "vitest";
import { stepWith, winsBeside } from "../src/report/data/fixes";

/** Findings 0, 2 and 5: alone they win 4, 3 and 1 ms; 0 and 2 overlap, and 5 wins nothing once 0 is mended. */
const SUBSETS = { rows: [0, 2, 5], out_of: 4, step_ms: [10, 6, 7, 5, 9, 6, 6, 5] };

test("each subset of the findings has a time of its own, in whatever order they were ticked", () => {
  expect(stepWith(SUBSETS, [])).toBe(10);
  expect(stepWith(SUBSETS, [2])).toBe(7);
  expect(stepWith(SUBSETS, [2, 0])).toBe(5);
  expect(stepWith(SUBSETS, [5, 0])).toBe(6);
  expect(stepWith(SUBSETS, [0, 2, 5])).toBe(5);
});

test("findings that were not simulated change nothing", () => {
  expect(stepWith(SUBSETS, [1, 99])).toBe(10);
  expect(stepWith(SUBSETS, [1, 2, 99])).toBe(7);
});

test("what a finding wins depends on the others that are ticked", () => {
  expect(winsBeside(SUBSETS, 0, [])).toBe(4);
  expect(winsBeside(SUBSETS, 0, [2])).toBe(2);
  expect(winsBeside(SUBSETS, 0, [0, 2])).toBe(2);
  expect(winsBeside(SUBSETS, 5, [5, 0])).toBe(0);
});
