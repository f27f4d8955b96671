import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CODECS as CODE } from "../src/code/state";
import { CODECS as KERNEL } from "../src/kernel/state";
import { CODECS as REPORT } from "../src/report/state";
import { Store, type Address, type Codecs } from "../src/shared/store";

/** An address without a browser; `pushed` are the steps that Back would take back. */
class FakeAddress implements Address {
  readonly pushed: string[] = [];
  private changed = (): void => undefined;
  constructor(private now = "") {}
  hash = (): string => this.now;
  replace = (hash: string): void => void (this.now = hash);
  push = (hash: string): void => {
    this.pushed.push(this.now);
    this.now = hash;
  };
  listen = (changed: () => void): void => void (this.changed = changed);
  /** As if the reader typed another address, or went back; `said` is when the browser says so. */
  visit(hash: string, said = (tell: () => void): void => tell()): void {
    this.now = hash;
    said(this.changed);
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Links that earlier pages made, and what they must still mean. */
const LINKS: [string, Codecs, string, Record<string, unknown>][] = [
  [
    "report",
    REPORT,
    "theme=dark&steps=3%2C5&range=100-900&view=-20-5000.5&event=0%3A42&hide=GEMM%7CNCCL%20all&colour=kernel&path=1&lanes=%2B3%2C-0.1&fixes=0%2C2&table=ops&sort=-total_us&filter=op%3A%22a%20b%22&row=7&weight=cpu&order=inverted&context=module&zoom=main%01mm%022%030.2500000000-0.5000000000&q=gemm&at=tables",
    {
      theme: "dark",
      steps: [3, 5],
      range: [100, 900],
      view: [-20, 5000.5],
      event: { scene: 0, row: 42 },
      hide: ["GEMM", "NCCL all"],
      colour: "kernel",
      lanes: [
        { key: "3", open: true },
        { key: "0.1", open: false },
      ],
      path: true,
      fixes: [0, 2],
      table: "ops",
      sort: { column: "total_us", descending: true },
      filter: 'op:"a b"',
      row: 7,
      weight: "cpu",
      order: "inverted",
      context: "module",
      zoom: {
        names: [
          { name: "main", twin: 0 },
          { name: "mm", twin: 2 },
        ],
        span: [0.25, 0.5],
      },
      q: "gemm",
      at: "tables",
    },
  ],
  [
    "kernel",
    KERNEL,
    "theme=light&launch=2&program=17&op=4&show=accesses&zoom=program&dims=0.1.f.3%7C%7C-1.0.f&banks=64.16.2.row.8.1",
    {
      theme: "light",
      launch: 2,
      program: 17,
      op: 4,
      show: "accesses",
      zoom: true,
      dims: [{ row: 0, column: 1, fixed: [null, 3] }, null, { row: -1, column: 0, fixed: [null] }],
      banks: { rows: 64, columns: 16, bytes: 2, direction: "row", padding: 8, swizzle: true },
    },
  ],
  [
    "code",
    CODE,
    "check=1&stages=ttgir.sass&tab=ptx&line=0.13&raw=1&sizes=1300.1000&facts=0",
    { check: 1, stages: ["ttgir", "sass"], tab: "ptx", line: { file: 0, line: 13 }, raw: true, sizes: [1300, 1000], facts: true },
  ],
];

test.each(LINKS)("a link to the %s page keeps its meaning and its spelling", (_, codecs, link, values) => {
  const store = new Store(codecs, "", new FakeAddress(link));
  for (const [key, value] of Object.entries(values)) expect(store.get(key), key).toEqual(value);
  expect(store.hash()).toBe(link);
});

test.each([REPORT, KERNEL, CODE])("what is not chosen is not in the address", (codecs: Codecs) => {
  expect(new Store(codecs, "", new FakeAddress()).hash()).toBe("");
});

test("nonsense in a link is as if nothing was chosen", () => {
  const store = new Store(REPORT, "", new FakeAddress("range=abc&event=1&row=-3&colour=pink&steps=1,x,3&what=ever&q=%E0%A4%A"));
  expect([store.get("range"), store.get("event"), store.get("row"), store.get("colour")]).toEqual([null, null, null, "category"]);
  expect(store.get("steps")).toEqual([1, 3]);
  expect(store.get("q")).toBe("%E0%A4%A");
});

test("a page opens with its own view where the address has none", () => {
  expect(new Store(REPORT, "table=gaps", new FakeAddress()).get("table")).toBe("gaps");
  expect(new Store(REPORT, "table=gaps", new FakeAddress("q=mm")).get("table")).toBe("");
});

test("listeners hear of the keys whose values changed, and of no others", () => {
  const store = new Store(REPORT, "", new FakeAddress("steps=1"));
  const heard: string[][] = [];
  store.listen((changed) => heard.push([...changed]));
  store.set({ steps: [1], q: "mm", range: null });
  store.set({ q: "mm" });
  expect(heard).toEqual([["q"]]);
});

test("the address is written once, after the last of several changes", () => {
  const address = new FakeAddress();
  const replace = vi.spyOn(address, "replace");
  const store = new Store(REPORT, "", address);
  for (let row = 0; row < 50; row++) store.set({ row });
  expect(replace).not.toHaveBeenCalled();
  vi.runAllTimers();
  expect(replace).toHaveBeenCalledExactlyOnceWith("row=49");
});

test("a jump is a step back to where it began", () => {
  const address = new FakeAddress("q=mm");
  const store = new Store(REPORT, "", address);
  store.jump({ table: "ops", at: "tables" });
  expect(address.pushed).toEqual(["q=mm"]);
  expect(address.hash()).toBe("table=ops&q=mm&at=tables");
  address.visit("q=mm");
  expect([store.get("table"), store.get("q")]).toEqual(["", "mm"]);
});

test("a view that is yet to be written does not undo a step back", () => {
  const address = new FakeAddress("q=mm");
  const store = new Store(REPORT, "", address);
  store.jump({ table: "ops" });
  store.set({ row: 3 });
  address.visit("q=mm", (tell) => {
    vi.runAllTimers();
    tell();
  });
  vi.runAllTimers();
  expect([store.get("table"), store.get("row"), address.hash()]).toEqual(["", null, "q=mm"]);
  store.set({ row: 4 });
  vi.runAllTimers();
  expect(address.hash()).toBe("row=4&q=mm");
});

test("values can be given as the address spells them", () => {
  const store = new Store(REPORT, "", new FakeAddress("q=mm"));
  store.setTexts({ steps: "2,4", event: "0:7" });
  expect([store.get("steps"), store.get("event"), store.text("q")]).toEqual([[2, 4], { scene: 0, row: 7 }, "mm"]);
});
