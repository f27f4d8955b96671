import { expect, test } from "vitest";
import { decode } from "../src/report/data/decode";

/** A page's data with one table of these columns of small numbers: folded, one byte each. */
async function pageOf(
  columns: Record<string, { values: number[]; expected?: Record<string, number> }>,
  order?: [string, boolean][],
): Promise<string> {
  const lists = Object.values(columns).map(({ values }) => values);
  const rows = lists[0].length;
  const specs = Object.entries(columns).map(([name, { expected }], place) => {
    const data = { at: place * rows, rows, width: 1, delta: false };
    return { name, unit: "", meaning: name, data, ...(expected ? { expected } : {}) };
  });
  const table = { name: "gaps", meaning: "", notes: [], rows, columns: specs, ...(order ? { order } : {}) };
  const page = {
    format: "warplens-page",
    version: 1,
    kinds: [],
    texts: [],
    scenes: [],
    tables: [table],
    criticalPath: null,
    corrected: null,
    job: null,
  };
  const head = new TextEncoder().encode(JSON.stringify(page));
  const bytes = lists.flat().map((value) => (value < 0 ? -2 * value - 1 : 2 * value));
  const whole = new Uint8Array([...new TextEncoder().encode(String(head.length).padStart(8, "0")), ...head, ...bytes]);
  const stream = new Blob([whole]).stream().pipeThrough(new CompressionStream("gzip"));
  return btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
}

test("a table's columns come back in its order, each unpacked once, when it is read", async () => {
  const data = await decode(await pageOf({ start: { values: [1, 2, 3, 4] }, length: { values: [5, 9, 5, 7] } }, [["length", true], ["start", false]]), false); // prettier-ignore
  const [start, length] = data.tables[0].columns;
  expect([...start.values]).toEqual([2, 4, 1, 3]);
  expect([...length.values]).toEqual([9, 7, 5, 5]);
  expect(start.values).toBe(start.values);
});

test("a column stored as a difference is read through those that it is expected from, whichever is read first", async () => {
  const columns = { mean: { values: [1, 0, -1], expected: { total: 0.5 } }, total: { values: [10, 20, 30] } };
  const data = await decode(await pageOf(columns), false);
  expect([...data.tables[0].columns[0].values]).toEqual([6, 10, 14]);
  expect([...data.tables[0].columns[1].values]).toEqual([10, 20, 30]);
});
