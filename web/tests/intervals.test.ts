import { expect, test } from "vitest";
import { clip, join, length, subtract, union, type Union } from "../src/report/data/intervals";

/** The union of intervals given as pairs of start and end. */
function of(...pairs: [number, number][]): Union {
  const start = Float64Array.from(pairs, ([from]) => from);
  const duration = Float64Array.from(pairs, ([from, to]) => to - from);
  return union(
    pairs.map((_, row) => row),
    start,
    duration,
  );
}
const pairsOf = ({ starts, ends }: Union): [number, number][] => Array.from(starts, (start, at) => [start, ends[at]]);

test("a union joins what overlaps or touches, and ignores empty intervals", () => {
  expect(pairsOf(of([10, 20], [0, 5], [15, 30], [30, 31], [40, 40]))).toEqual([
    [0, 5],
    [10, 31],
  ]);
});

test("a union covers an interval inside another once", () => {
  expect(length(of([0, 100], [10, 20], [50, 120]))).toBe(120);
});

test("a clipped union keeps only what is inside the window", () => {
  expect(pairsOf(clip(of([0, 10], [20, 30], [40, 50]), 5, 40))).toEqual([
    [5, 10],
    [20, 30],
  ]);
});

test("subtraction cuts holes and drops what is covered", () => {
  expect(pairsOf(subtract(of([0, 10], [20, 30], [40, 50]), of([2, 4], [8, 22], [39, 60])))).toEqual([
    [0, 2],
    [4, 8],
    [22, 30],
  ]);
});

test("what is left of a union and what was cut off have its length together", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  for (let round = 0; round < 200; round++) {
    const some = (): Union => of(...Array.from({ length: random(12) }, (): [number, number] => [random(50), 50 + random(60)]));
    const [a, b] = [some(), some()];
    expect(length(subtract(a, b)) + length(b)).toBe(length(join(a, b)));
  }
});
