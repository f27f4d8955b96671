import { expect, test } from "vitest";
import { readInts, readNumbers, unpack } from "../src/shared/blocks";
import type { ColumnSpec } from "../src/shared/generated/records";
import { packed } from "./packed.json";

const { header, bytes } = await unpack(packed);
const { columns, texts } = header as { columns: Record<string, ColumnSpec>; texts: string[] };

test("integers of 32 bits come back, differences summed", () => {
  expect([...readInts(columns["ints"], bytes)]).toEqual([0, -1, 300, -(2 ** 31), 2 ** 31 - 1]);
  expect([...readInts(columns["rising"], bytes)]).toEqual([5, 7, 300, 299]);
});

test("integers beyond 32 bits come back exactly", () => {
  expect([...readNumbers(columns["times"], bytes)]).toEqual([2 ** 52, -(2 ** 52), 3]);
});

test("decimals come back exactly, NaN where there is none", () => {
  expect([...readNumbers(columns["decimals"], bytes)]).toEqual([0.001, 1.5, NaN, 1e-6]);
  expect([...readNumbers(columns["thirds"], bytes)]).toEqual([1 / 3, 1e300]);
});

test("texts are numbers of a list, -1 where there is none", () => {
  const read = [...readInts(columns["texts"], bytes)].map((code) => texts[code] ?? null);
  expect(read).toEqual(["a", null, "", "a"]);
});

test("booleans are 1 and 0, NaN where there is none", () => {
  expect([...readNumbers(columns["flags"], bytes)]).toEqual([1, NaN, 0]);
});

test("data of another version is refused", async () => {
  const text = JSON.stringify({ format: "warplens-page", version: 99 });
  const whole = new TextEncoder().encode(String(text.length).padStart(8, "0") + text);
  const stream = new Blob([whole]).stream().pipeThrough(new CompressionStream("gzip"));
  const gzipped = new Uint8Array(await new Response(stream).arrayBuffer());
  await expect(unpack(btoa(String.fromCharCode(...gzipped)))).rejects.toThrow("the data is warplens-page 99");
});
