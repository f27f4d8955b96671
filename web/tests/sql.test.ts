import { expect, test } from "vitest";
import { Table, type Column } from "../src/report/data/table";
import { runQuery } from "../src/report/sql/run";
import { SqlError } from "../src/report/sql/tokens";

const TEXTS = ["gemm", "copy", "relu", "GEMM", "it's"];
const column = (name: string, kind: Column["kind"], values: number[]): Column => ({
  name,
  unit: kind === "number" ? "us" : "",
  meaning: `meaning of ${name}`,
  kind,
  values: kind === "text" ? Int32Array.from(values) : Float64Array.from(values),
});
const KERNELS = new Table(
  {
    name: "kernels",
    meaning: "",
    notes: [],
    rows: 5,
    columns: [
      column("kernel", "text", [0, 1, 2, 0, -1]),
      column("category", "text", [3, 4, 4, 3, 4]),
      column("total_us", "number", [10, 5, 1, 20, NaN]),
      column("count", "number", [2, 5, 1, 4, 1]),
      column("bound", "bool", [1, 0, 0, 1, 0]),
    ],
  },
  TEXTS,
);
const SOURCE = { names: ["kernels"], table: () => KERNELS };

function rows(query: string): (string | number | boolean | null)[][] {
  const table = runQuery(query, SOURCE);
  return Array.from({ length: table.rows }, (_, row) =>
    table.columns.map((each) => {
      const value = each.values[row];
      if (each.kind === "text") return value < 0 ? null : table.texts[value];
      if (Number.isNaN(value)) return null;
      return each.kind === "bool" ? value === 1 : value;
    }),
  );
}

test("rows are chosen, sorted and cut, and what has no value comes last", () => {
  expect(rows("select kernel, total_us from kernels order by total_us desc")).toEqual([
    ["gemm", 20],
    ["gemm", 10],
    ["copy", 5],
    ["relu", 1],
    [null, null],
  ]);
  expect(rows("SELECT total_us FROM kernels WHERE total_us >= 5 AND NOT bound ORDER BY 1 LIMIT 1")).toEqual([[5]]);
  expect(rows("select count from kernels order by total_us limit 2 offset 1")).toEqual([[5], [2]]);
  expect(rows("select * from kernels limit 1")).toEqual([["gemm", "GEMM", 10, 2, true]]);
});

test("groups have sums, and conditions on them", () => {
  const query =
    "select kernel, sum(total_us) as spent, count(*) n from kernels where kernel is not null group by kernel having n > 0 order by spent desc";
  expect(rows(query)).toEqual([
    ["gemm", 30, 2],
    ["copy", 5, 1],
    ["relu", 1, 1],
  ]);
  expect(
    rows(
      "select sum(total_us), avg(total_us), min(total_us), max(kernel), median(count), count(total_us), count(distinct kernel) from kernels",
    ),
  ).toEqual([[36, 9, 1, "relu", 2, 4, 3]]);
  expect(rows("select lower(category) c, sum(count) / count(*) from kernels group by lower(category) order by c")).toEqual([
    ["gemm", 3],
    ["it's", 7 / 3],
  ]);
  expect(rows("select sum(count) from kernels where count > 100")).toEqual([[null]]);
});

test("expressions compare, match, calculate and choose", () => {
  expect(rows("select kernel from kernels where kernel like 'g%' or kernel in ('relu')")).toEqual([["gemm"], ["relu"], ["gemm"]]);
  expect(rows("select distinct kernel from kernels where category ilike 'gemm'")).toEqual([["gemm"]]);
  expect(rows("select kernel from kernels where category = 'it''s' and total_us between 1 and 4")).toEqual([["relu"]]);
  expect(rows("select round(total_us / count, 1), case when bound then 'b' else 'c' end, kernel || '!' from kernels limit 1")).toEqual([
    [5, "b", "gemm!"],
  ]);
  expect(rows("select -total_us + 2 * (count - 1) from kernels limit 2")).toEqual([[-8], [3]]);
  expect(rows('select "total_us" / 0 from kernels limit 1')).toEqual([[null]]);
});

test("a result keeps the units and meanings of plain columns", () => {
  const [first, second] = runQuery("select total_us as t, sum(count) from kernels group by total_us", SOURCE).columns;
  expect([first.name, first.unit, first.meaning]).toEqual(["t", "us", "meaning of total_us"]);
  expect([second.name, second.unit, second.meaning]).toEqual(["sum(count)", "us", "sum of: meaning of count"]);
});

test.each([
  ["", "begins with select"],
  ["select kernel kernels", "comes from"],
  ["select kernle from kernels", "no column kernle; it has kernel, category"],
  ["select * from kernel", "no table kernel; there are kernels"],
  ["select kernel, sum(count) from kernels", "kernel is neither grouped by nor summed"],
  ["select kernel from kernels where sum(count) > 1", "conditions on sums stand in having"],
  ["select kernel from kernels where kernel = 'gemm", "not closed"],
  ["select sum(kernel) from kernels", "needs numbers; “gemm” is a text"],
  ["select foo(kernel) from kernels", "no function foo"],
  ["select kernel from kernels join ops on 1", "it has no joins"],
  ["select k.kernel from kernels k join ops o on k.op = o.op", "it has no aliases or joins (k). The command warplens sql"],
  ["select kernel from kernels as k", "it has no aliases or joins (k)"],
  ["select kernel from kernels limit many", "comes a whole number"],
  ["delete from kernels", "it has no delete"],
  ["select kernel from kernels order total_us", "After order comes by"],
  ["select constructor from kernels", "no column constructor"],
  ["select toString(kernel) from kernels", "no function tostring"],
])("what is wrong is said in words: %s", (query, words) => {
  expect(() => runQuery(query, SOURCE)).toThrow(SqlError);
  expect(() => runQuery(query, SOURCE)).toThrow(words);
});
