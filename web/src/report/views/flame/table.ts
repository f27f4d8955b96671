// The chart's table twin: one row per node, heaviest path first.
import type { App } from "../../app";
import type { DecodedColumn } from "../../data/decode";
import { Table } from "../../data/table";
import { chosenOf, framesFor } from "./build";
import { nameOf, toneOf, type Frames } from "./frames";
import { shareOf } from "./facts";
import { folded } from "./stacks";
import { ROOT } from "./tree";

const US = 1000;

/** The call tree for the present weight, context and selection; in a comparison, its tree of differences. */
export function treeTable(app: App): Table {
  const { scene } = app;
  if (!scene) return app.wholeTable("diff_tree");
  const chosen = chosenOf(app, scene);
  const frames = framesFor(scene, app.selection, { ...chosen, order: "left" });
  const weight = chosen.weight === "gpu" ? "GPU" : "CPU";
  return tableOf(frames, `one row per call path (${chosen.context}), ${weight} time of ${app.selection.text}`);
}

function tableOf(frames: Frames, meaning: string): Table {
  const texts: string[] = [];
  const rows = frames.size;
  const texted = (of: (row: number) => string): Int32Array => new Int32Array(rows).map((_, row) => texts.push(of(row)) - 1);
  const numbers = (of: (row: number) => number): Float64Array => new Float64Array(rows).map((_, row) => of(row));
  const column = (name: string, unit: string, meaning: string, values: Int32Array | Float64Array): DecodedColumn => ({
    name,
    unit,
    meaning,
    kind: values instanceof Int32Array ? "text" : "number",
    values,
  });
  const columns = [
    column(
      "name",
      "",
      "module, op, frame or kernel",
      texted((row) => nameOf(frames, row)),
    ),
    column(
      "kind",
      "",
      "kind of the node",
      texted((row) => toneOf(frames, row).kind),
    ),
    column(
      "depth",
      "",
      "nodes above it",
      numbers((row) => frames.depth[row]),
    ),
    column(
      "total_us",
      "us",
      "time of the node and all below it",
      numbers((row) => frames.width[row] / US),
    ),
    column(
      "self_us",
      "us",
      "time of the node itself",
      numbers((row) => frames.self[row] / US),
    ),
    column(
      "percent",
      "%",
      "share of all time in the tree",
      numbers((row) => shareOf(frames, row, ROOT)),
    ),
    column(
      "count",
      "",
      "events of the node and all below it",
      numbers((row) => frames.count[row]),
    ),
    column("path", "", "names from the outermost caller down, joined by ;", texted(pathsOf(frames))),
  ];
  return new Table({ name: "call_tree", meaning, notes: [], rows, columns }, texts);
}

/** Paths share their beginnings: each is its caller's and one name more. */
function pathsOf(frames: Frames): (row: number) => string {
  const paths: string[] = [];
  return (row) => {
    const name = folded(nameOf(frames, row));
    paths[row] = row === ROOT ? "" : frames.parent[row] === ROOT ? name : `${paths[frames.parent[row]]};${name}`;
    return paths[row];
  };
}
