// The critical path as a table: names, ops and shares follow from the events on the page.
import type { App, Target } from "../../app";
import type { DecodedColumn } from "../../data/decode";
import { NONE, type Scene } from "../../data/scene";
import { Table } from "../../data/table";
import { formatMoment } from "../../../shared/format";
import { Texts } from "./events";
import { extraFacts, extraTables } from "./extra";

const NAME = "critical_path";

/** The innermost op around an event; of GPU work the one that launched it. */
function opOf(scene: Scene, row: number): string {
  if (row === NONE) return "";
  let at = scene.gpuEvent[row] >= 0 ? scene.owner(row) : row;
  while (at !== NONE && scene.kind(at) !== "op") at = scene.gpuEvent[row] >= 0 ? NONE : scene.data.parent[at];
  return at === NONE ? "" : scene.name(at);
}

function criticalPath(app: App): Table {
  const [path, scene] = [app.path!, app.scenes[0]];
  const texts = new Texts(app.texts);
  const kinds = Object.keys(path.kinds);
  const length = path.time.reduce((sum, ns) => sum + ns, 0);
  const isGpu = (row: number): boolean => row !== NONE && scene.gpuEvent[row] >= 0;
  const cells: Record<string, (i: number, row: number) => string | number> = {
    kind: (i) => kinds[path.kind[i]],
    name: (_, row) => (row === NONE ? "" : isGpu(row) ? scene.short(row) : scene.name(row)),
    start_ms: (i) => path.start[i] / 1e6,
    time_us: (i) => path.time[i] / 1e3,
    percent: (i) => Math.round((1e8 * path.time[i]) / Math.max(1, length)) / 1e6,
    op: (_, row) => opOf(scene, row),
    kernel_category: (_, row) => (isGpu(row) ? scene.category(row) : ""),
    step: (_, row) => (isGpu(row) ? scene.data.step[row] : NONE),
    id: (_, row) => row,
    recorded_ms: (i) => path.from[i] / 1e6,
    recorded_us: (i) => (path.to[i] - path.from[i]) / 1e3,
  };
  const columns = path.columns.map((column): DecodedColumn => {
    const values = Array.from(path.row, (row, i) => cells[column.name](i, row));
    return typeof values[0] === "string"
      ? { ...column, kind: "text", values: Int32Array.from(values, (text) => texts.code(text as string)) }
      : { ...column, kind: "number", values: Float64Array.from(values as number[]) };
  });
  const rows = path.row.length;
  const notes = rows ? [`of the steps that were simulated: ${pathRange(app)} of the trace`] : [];
  return new Table({ name: NAME, meaning: "one row per segment, in order", notes, rows, columns }, texts.list, false);
}

/** Which part of the trace the path is about. */
export function pathRange(app: App): string {
  const { from, to } = app.path!;
  const [first, last] = [from[0], to[to.length - 1]];
  return `${formatMoment(first, last - first)} to ${formatMoment(last, last - first)}`;
}

function target(app: App, origin: number): Target | null {
  const row = app.path!.row[origin];
  return row === NONE ? null : { to: "event", scene: 0, row };
}

export function registerPath(): void {
  extraTables.set(NAME, criticalPath);
  extraFacts.set(NAME, { rows: (app) => app.path!.kind.length, target });
}
