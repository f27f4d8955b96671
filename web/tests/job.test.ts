import { expect, test } from "vitest";
import { Job, type DecodedJob } from "../src/report/data/job";
import { binned, labelStep, scaleOf, shareOf } from "../src/report/views/job/grid";
import { gridOf } from "../src/report/views/job/heatmap";
import { callNear } from "../src/report/views/job/input";
import { orderedRanks, passes, placed, rankAt } from "../src/report/views/job/lanes";
import { blocksOf, doneAt, messagesOf, stageRanks } from "../src/report/views/job/microbatches";
import { byteTicks, collectivePoints } from "../src/report/views/job/scatter";

const TEXTS = ["all_reduce", "send", "recv", "world"];
type Call = [start: number, length: number, wait: number, match: number, kind: number, peer?: number];

/** A job of ranks with calls and computation from start to end; stage numbers make a pipeline. */
function jobOf(ranks: { calls: Call[]; compute?: [number, number][]; stage?: number }[]): Job {
  const calls = ranks.flatMap((rank) => rank.calls);
  const compute = ranks.flatMap((rank) => rank.compute ?? []);
  const column = (at: number): number[] => calls.map((call) => call[at] ?? -1);
  const data: DecodedJob = {
    ranks: ranks.length,
    drawn: ranks.map((rank, number) => ({
      rank: number,
      host: "",
      stage: rank.stage ?? -1,
      why: "",
      calls: rank.calls.length,
      computes: rank.compute?.length ?? 0,
      steps: 1,
    })),
    start: Float64Array.from(column(0)),
    length: Float64Array.from(column(1)),
    wait: Float64Array.from(column(2)),
    match: Int32Array.from(column(3)),
    kind: Int32Array.from(column(4)),
    peer: Int32Array.from(column(5)),
    bytes: new Float64Array(calls.length),
    group: new Int32Array(calls.length).fill(3),
    step: new Int32Array(calls.length),
    computeStart: Float64Array.from(compute, ([from]) => from),
    computeLength: Float64Array.from(compute, ([from, to]) => to - from),
    stepStart: Float64Array.from(ranks, (_, at) => at),
    stepLength: new Float64Array(ranks.length).fill(1000),
    stepNumber: new Int32Array(ranks.length),
  };
  return new Job(data, TEXTS);
}

test("the calls of one collective are found from any of its ranks, and the last one is named", () => {
  const job = jobOf([
    { calls: [[0, 10, -1, -1, 0], [20, 30, 20, 7, 0]] }, // prettier-ignore
    { calls: [[40, 10, 0, 7, 0]] },
  ]);
  expect(job.matched(1)).toEqual([1, 2]);
  expect(job.matched(2)).toEqual([1, 2]);
  expect(job.matched(0)).toEqual([0]);
  expect(job.rankOfCall(job.lastOf([1, 2])).rank).toBe(1);
  expect(job.callOf(7)).toBe(1);
  expect(job.callOf(8)).toBe(-1);
});

test("waits and transfers of a rank are apart, and an unknown wait counts as transfer", () => {
  const [rank] = jobOf([{ calls: [[0, 10, -1, -1, 0], [20, 30, 20, 7, 0]] }]).ranks; // prettier-ignore
  expect([...rank.waits.starts, ...rank.waits.ends]).toEqual([20, 40]);
  expect([...rank.transfers.starts]).toEqual([0, 40]);
  expect(rank.waitNs).toBe(20);
});

test("a job reaches from its first event to its last, and its steps from rank to rank", () => {
  const job = jobOf([{ calls: [[500, 1000, 0, 1, 0]] }, { calls: [[400, 100, 0, 1, 0]] }]);
  expect(job.extent()).toEqual([0, 1500]);
  expect(job.steps()).toEqual([{ step: 0, name: "step 0", from: 0, to: 1001 }]);
});

test("ranks are chosen by numbers, ranges and words", () => {
  const rank = { rank: 5, label: "rank 5 · node3 · slowest" };
  for (const filter of ["", " 5", "4-7", "1,5", "5–5", "node3", "SLOW rank"]) expect(passes(filter, rank), filter).toBe(true);
  for (const filter of ["50", "6-9", "node4", "fastest"]) expect(passes(filter, rank), filter).toBe(false);
});

test("ranks are in the order of their numbers or of their waits", () => {
  const ranks = [3, 1, 2].map((rank) => ({ rank, label: "", waitNs: rank === 1 ? 50 : 7 }));
  const numbers = (order: string): number[] => orderedRanks(ranks, "", order).map(({ rank }) => rank);
  expect(numbers("rank")).toEqual([1, 2, 3]);
  expect(numbers("wait")).toEqual([1, 2, 3]);
  expect(orderedRanks(ranks.slice().reverse(), "2-3", "wait").map(({ rank }) => rank)).toEqual([2, 3]);
});

test("a folded rank takes less room, and a height leads to its lane", () => {
  const { ranks } = jobOf([{ calls: [] }, { calls: [] }]);
  const [first, second] = placed(ranks, new Set([0]));
  expect(first.height).toBeLessThan(second.height);
  expect(second.top).toBe(first.height);
  expect(rankAt([first, second], second.top + 4)).toEqual({ place: second, communicates: false });
  expect(rankAt([first, second], second.top + second.height - 4)).toEqual({ place: second, communicates: true });
  expect(rankAt([first, second], 10_000)).toBeNull();
});

test("the call under the pointer is the shortest that covers it, else the nearest within reach", () => {
  const job = jobOf([{ calls: [[0, 100, 0, 1, 0], [40, 10, 0, 2, 0], [200, 5, 0, 3, 0]] }]); // prettier-ignore
  const near = (time: number): number => callNear(job, job.ranks[0], time, 3);
  expect([near(45), near(20), near(198), near(150)]).toEqual([1, 0, 2, -1]);
});

test("what shares a pixel is shown by its largest value", () => {
  const grid = { rows: 3, columns: 2, values: Float64Array.from([1, 9, 4, NaN, 2, 3]) };
  const bins = binned(grid, 2, 1);
  expect([bins.rows, bins.columns]).toEqual([2, 1]);
  expect([...bins.values]).toEqual([9, 3]);
  expect([...bins.cells]).toEqual([1, 5]);
  expect([...binned(grid, 10, 10).values]).toEqual([...grid.values]);
});

test("a scale is not stretched by one value far out among many", () => {
  const values = Array.from({ length: 200 }, (_, at) => at / 200);
  expect(scaleOf([...values, 50])).toMatchObject({ low: 0, clipped: true });
  expect(scaleOf([...values, 50]).high).toBeLessThan(1);
  expect(scaleOf([1, 2, 50])).toEqual({ low: 1, high: 50, clipped: false });
  expect(scaleOf([NaN, 3, 4], true)).toEqual({ low: 0, high: 4, clipped: false });
  expect(shareOf(3, { low: 3, high: 3, clipped: false })).toBe(0.5);
  expect(shareOf(99, { low: 0, high: 10, clipped: true })).toBe(1);
});

test("labels have room", () => {
  expect([labelStep(8, 20, 13), labelStep(1000, 0.44, 13), labelStep(3, 0.1, 13)]).toEqual([1, 50, 3]);
});

test("rows of a table become cells, a square matrix has every rank in both directions", () => {
  expect(gridOf([0, 1, 1], [4, 4, 6])).toEqual({ rows: [0, 1], columns: [4, 6], source: Int32Array.from([0, -1, 1, 2]) });
  expect(gridOf([0], [2], true)).toEqual({ rows: [0, 2], columns: [0, 2], source: Int32Array.from([-1, 0, -1, -1]) });
});

test("collectives without a size or a speed are counted, not drawn", () => {
  const rows = [
    { message_bytes: 1024, busbw_gbps: 5 },
    { message_bytes: NaN, busbw_gbps: NaN },
    { message_bytes: 4, busbw_gbps: 0.1 },
  ];
  const table = { rows: 3, text: () => "all_reduce", number: (name: string, row: number) => rows[row][name as "message_bytes"] };
  const { points, unknown } = collectivePoints(table);
  expect(points.map(({ row }) => row)).toEqual([2, 0]);
  expect(unknown).toBe(1);
});

test("sizes on an axis are powers of two, at most a dozen", () => {
  expect(byteTicks(3, 40)).toEqual([4, 8, 16, 32]);
  expect(byteTicks(1, 2 ** 30).length).toBeLessThanOrEqual(12);
  expect(byteTicks(1, 2 ** 30)).toContain(2 ** 20);
});

test("computation in a pipeline is named by the messages around it", () => {
  const [SEND, RECEIVE] = [1, 2];
  const job = jobOf([
    { stage: 0, compute: [[0, 40], [70, 90]], calls: [[20, 5, 0, 1, SEND, 1], [40, 5, 0, 2, SEND, 1], [45, 25, 20, 3, RECEIVE, 1]] }, // prettier-ignore
    { stage: 1, compute: [[25, 60], [80, 85]], calls: [[0, 25, 20, 1, RECEIVE, 0], [60, 5, 0, 3, SEND, 0], [66, 4, 0, 9, 0]] }, // prettier-ignore
  ]);
  expect(stageRanks(job).map(({ rank }) => rank)).toEqual([0, 1]);
  const blocks = (at: number): string[] => {
    const rank = job.ranks[at];
    const messages = messagesOf(job, rank, 0);
    return blocksOf(rank, messages, 0, 100, doneAt(job, rank, 0, messages)).map(({ from, to, label }) => `${from}-${to} ${label}`);
  };
  expect(blocks(0)).toEqual(["0-20 F0", "20-40 F1", "70-90 B0"]);
  // The collective after the last message ends the microbatches: what follows belongs to none.
  expect(blocks(1)).toEqual(["25-60 F0 B0", "80-85 "]);
});

test("without stages there is no pipeline", () => {
  expect(stageRanks(jobOf([{ calls: [] }, { calls: [] }]))).toEqual([]);
});
