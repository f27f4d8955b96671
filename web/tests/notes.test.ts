import { expect, test } from "vitest";
import { CODECS } from "../src/report/state";
import { usualSteps } from "../src/report/data/step_diff";

test("notes survive the address, with any characters, and what is no note is dropped", () => {
  const notes = [
    { from: -5, to: 900, event: { scene: 0, row: 42 }, text: "slow | here ~ 100 % & more" },
    { from: 0, to: 10, event: null, text: "" },
  ];
  const { read, write } = CODECS.notes;
  expect(read(write(notes))).toEqual(notes);
  expect(read("")).toEqual([]);
  expect(read("900-5~backwards|x|1-2~cut %E2")).toEqual([{ from: 1, to: 2, event: null, text: "cut %E2" }]);
});

test("a moment of a counter survives the address", () => {
  const { read, write } = CODECS.moment;
  expect(read(write({ key: "memory_timeline.0", time: 12 }))).toEqual({ key: "memory_timeline.0", time: 12 });
  expect(read("memory:x")).toBe(null);
});

test("the middle step is compared with the slowest unless others are chosen", () => {
  expect(usualSteps([])).toBe(null);
  expect(usualSteps([{ step: 1, ms: 5 }])).toBe(null);
  expect(usualSteps([{ step: 3, ms: 9 }, { step: 4, ms: 7 }, { step: 5, ms: 8 }])).toEqual([5, 3]); // prettier-ignore
});
