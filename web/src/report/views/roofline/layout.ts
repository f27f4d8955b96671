// Where everything goes on the roofline: a chart of what computes, and below it a strip of what only moves data.
import { hasFlops, isCompute, movesData, type Ceiling, type Point } from "./points";
import { logScale, lowerEdge, type LogScale } from "./scale";

const MARGIN = { left: 58, right: 172, top: 12 };
const CHART_HEIGHT = 360;
const AXIS_HEIGHT = 40;
const STRIP_HEIGHT = 62;
// Ops with less than this share of the time, or this far below the rest, lie beyond the edge: drawn on it and counted.
const BEYOND = 0.01;
const DECADES = 1e6;

export interface Layout {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
  x: LogScale;
  y: LogScale;
  strip: { top: number; bottom: number; x: LogScale } | null;
  /** Points drawn at an edge because they lie beyond it. */
  beyond: number;
}

export function layOut(width: number, points: Point[], shown: Ceiling[], bandwidth: Ceiling | null, link: Ceiling | null): Layout {
  const [left, right] = [MARGIN.left, Math.max(MARGIN.left + 120, width - MARGIN.right)];
  const computing = points.filter(hasFlops);
  const moving = points.filter(movesData);
  const [top, bottom] = [MARGIN.top, MARGIN.top + (computing.length ? CHART_HEIGHT : 0)];
  const y = logScale(heightRange(computing, shown), [bottom, top]);
  const x = logScale(intensityRange(computing, shown, bandwidth), [left, right]);
  const stripTop = (computing.length ? bottom + AXIS_HEIGHT : top) + 24;
  const limits = [bandwidth, link].flatMap((ceiling) => (ceiling ? [ceiling.value] : []));
  const strip = moving.length
    ? { top: stripTop, bottom: stripTop + STRIP_HEIGHT, x: logScale(rateRange(moving, limits), [left, right]) }
    : null;
  const height = strip ? strip.bottom + AXIS_HEIGHT : bottom + AXIS_HEIGHT;
  const beyond =
    computing.filter(({ tflops }) => tflops < y.from).length + moving.filter(({ tbps }) => strip && tbps < strip.x.from).length;
  return { width, height, left, right, top, bottom, x, y, strip, beyond };
}

function heightRange(points: Point[], shown: Ceiling[]): [number, number] {
  if (!points.length) return [0.1, 10];
  const rates = points.map(({ tflops }) => tflops);
  const most = Math.max(...rates, ...shown.filter(isCompute).map(({ value }) => value));
  return [lowest(points, rates, most), most * 1.8];
}

function intensityRange(points: Point[], shown: Ceiling[], bandwidth: Ceiling | null): [number, number] {
  if (!points.length) return [0.1, 10];
  const values = points.map(({ intensity }) => intensity);
  const ridges = bandwidth ? shown.map(({ value }) => value / bandwidth.value) : [];
  return [Math.min(...values) / 1.6, Math.max(...values, ...ridges) * 2.2];
}

function rateRange(points: Point[], limits: number[]): [number, number] {
  const rates = points.map(({ tbps }) => tbps);
  const most = Math.max(...rates, ...limits);
  return [lowest(points, rates, most), most * 1.8];
}

function lowest(points: Point[], rates: number[], most: number): number {
  const edge = lowerEdge(
    rates,
    points.map(({ totalUs }) => totalUs),
    BEYOND,
  );
  return Math.max(Math.min(edge, most / 100) / 1.6, most / DECADES);
}
