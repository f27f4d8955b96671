// What the roofline shows: one point per op and shapes, and the ceilings of the GPU.
import type { App } from "../../app";
import type { Table } from "../../data/table";

export interface Point {
  /** Row of the whole table, by which links name it. */
  origin: number;
  op: string;
  family: string;
  params: string;
  dtype: string;
  bound: string;
  flag: string;
  unit: string;
  approximate: string;
  flop: number;
  intensity: number;
  tflops: number;
  tbps: number;
  count: number;
  meanUs: number;
  totalUs: number;
  lostUs: number;
  percentOfRoofline: number;
}

export interface Ceiling {
  /** "matrix bf16", "memory": as the column unit of the roofline names it. */
  name: string;
  value: number;
  per: string;
  measured: boolean;
}

/** The points, those with most time first. */
export function pointsOf(table: Table): Point[] {
  const points = Array.from({ length: table.rows }, (_, row) => pointOf(table, row));
  return points.sort((a, b) => b.totalUs - a.totalUs || a.origin - b.origin);
}

function pointOf(table: Table, row: number): Point {
  const text = (name: string): string => table.text(name, row);
  const number = (name: string): number => table.number(name, row);
  return {
    origin: table.originOf(row),
    op: text("op"),
    family: text("family"),
    params: text("params"),
    dtype: text("dtype"),
    bound: text("bound"),
    flag: text("flag"),
    unit: text("unit"),
    approximate: text("approximate"),
    flop: number("flop"),
    intensity: number("intensity"),
    // The columns are rounded: of the smallest ops they leave nothing.
    tflops: rate(number("flop"), number("kernel_us_mean")),
    tbps: rate(number("bytes"), number("kernel_us_mean")),
    count: number("count"),
    meanUs: number("kernel_us_mean"),
    totalUs: number("total_us"),
    lostUs: number("lost_us"),
    percentOfRoofline: number("percent_of_roofline"),
  };
}

/** FLOPs or bytes per call over µs per call, in 10¹² a second. */
function rate(amount: number, us: number): number {
  return us > 0 ? amount / us / 1e6 : 0;
}

/** On a log–log chart only what does arithmetic has a place. */
export function hasFlops(point: Point): boolean {
  return point.intensity > 0 && point.tflops > 0;
}
export function movesData(point: Point): boolean {
  return !hasFlops(point) && point.tbps > 0;
}

export function ceilingsOf(app: App): Ceiling[] {
  if (!app.hasTable("ceilings")) return [];
  const table = app.wholeTable("ceilings");
  return Array.from({ length: table.rows }, (_, row) => ({
    name: [table.text("unit", row), table.text("dtype", row)].filter(Boolean).join(" "),
    value: table.number("value", row),
    per: table.text("per", row),
    measured: table.number("measured", row) === 1,
  })).filter(({ value }) => value > 0);
}

export function isCompute({ per }: Ceiling): boolean {
  return per === "TFLOP/s";
}

/** The compute ceilings that limit any point; where memory limits them all, those of the products' types. */
export function usedCeilings(points: Point[], ceilings: Ceiling[]): Ceiling[] {
  const compute = ceilings.filter(isCompute);
  const named = new Set(points.map(({ unit }) => unit));
  const used = compute.filter(({ name }) => named.has(name));
  if (used.length) return used;
  const types = new Set(points.filter(hasFlops).map(({ dtype }) => `matrix ${dtype}`));
  const fitting = compute.filter(({ name }) => types.has(name));
  return fitting.length ? fitting : compute.filter(({ name }) => name === "vector fp32");
}
