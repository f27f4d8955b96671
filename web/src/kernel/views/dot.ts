// The chosen matrix product: A tile × B tile → C tile, with values where they were recorded.
import { h, replace } from "../../shared/dom";
import { formatCount, formatFlop } from "../../shared/format";
import { sizeText, type App, type View } from "../app";
import type { Events, Numbers } from "../data";
import { eachLane, inside, maskLanes } from "../lanes";
import { colours, signedStep } from "../palette";
import { Picture, type TipText } from "../../shared/picture";
import { numberText } from "../touch";

const TILE_PX = 256;

/** One of the three tiles; values and mask are null where they are not known. */
interface Tile {
  name: string;
  rows: number;
  columns: number;
  values: Numbers | null;
  active: Uint8Array | null;
  source: string;
}

export function mountDot(host: HTMLElement, app: App): View {
  const section = host.parentElement as HTMLElement;
  const status = h("p", { attrs: { role: "status", "aria-live": "polite" } });
  const next = h("button", { text: "Next product of this program", on: { click: () => toNext() } });
  const board = h("div", { class: "product" });
  host.append(h("div", { class: "tools wrap" }, next, status), board);
  let tiles: Tile[] = [];
  let pictures: Picture[] = [];

  function dots(): number[] {
    return Array.from(app.programRows.keys()).filter((operation) => app.kind(app.programRows[operation]) === "dot");
  }

  function toNext(): void {
    const all = dots();
    const operation = all.find((candidate) => candidate > app.op) ?? all[0];
    if (operation !== undefined) app.store.set({ op: operation });
  }

  function show(): void {
    const all = app.launch.events ? dots() : [];
    const some = app.launch.accesses.some(({ op }) => op.startsWith("dot"));
    section.hidden = !some;
    if (!some) return;
    const row = app.opRow;
    const chosen = row >= 0 && app.kind(row) === "dot";
    next.disabled = !all.length;
    board.hidden = !chosen;
    if (!chosen) {
      status.textContent = all.length
        ? `The program has ${formatCount(all.length)} matrix products; choose one in the list of operations.`
        : "The program has no matrix product.";
      return;
    }
    tiles = tilesOf(app, row);
    const [a, b, c] = tiles;
    const batch = app.shape(row).slice(0, -3);
    status.textContent =
      `${sizeText([c.rows, c.columns])} = ${sizeText([a.rows, a.columns])} times ${sizeText([b.rows, b.columns])}${batch.length ? `, the first of ${sizeText(batch)} in a batch` : ""}: ${formatFlop(app.dotFlop(row))}. ` +
      tiles.map((tile) => `${tile.name}: ${tile.source}.`).join(" ");
    draw();
  }

  function draw(): void {
    pictures = tiles.map((tile, at) => {
      const picture = new Picture({
        label: `Tile ${tile.name}, ${sizeText([tile.rows, tile.columns])}: ${tile.source}. Arrow keys read it.`,
        tip: app.tip,
        describe: (row, column) => describe(at, row, column),
        ...(at === 2 ? { move: cross } : {}),
      });
      return picture;
    });
    const boxes = pictures.map((picture, at) =>
      h(
        "figure",
        { class: `tile-${"abc"[at]}` },
        h("figcaption", { class: "small", text: `${tiles[at].name} ${sizeText([tiles[at].rows, tiles[at].columns])}` }),
        picture.element,
      ),
    );
    replace(board, ...boxes);
    for (const at of pictures.keys()) paint(at);
  }

  /** Under the pointer on C, the row of A and the column of B that make the element. */
  function cross(row: number, column: number): void {
    paint(0, row, -1);
    paint(1, -1, column);
  }

  function paint(at: number, row = -1, column = -1): void {
    const tile = tiles[at];
    const picture = pictures[at];
    const { line, signed, quiet, bad, flags, text } = colours();
    picture.fit(tile.rows, tile.columns, TILE_PX, TILE_PX, 12);
    const { cellRows, cellColumns, rowsPerCell, columnsPerCell } = picture;
    let most = 0;
    for (const value of tile.values ?? []) if (Number.isFinite(value) && Math.abs(value) > most) most = Math.abs(value);
    const first = (cell: number): number =>
      Math.floor(cell / cellColumns) * rowsPerCell * tile.columns + (cell % cellColumns) * columnsPerCell;
    const plain = flags[at === 2 ? 2 : 1];
    const edge = new Uint8Array(cellRows * cellColumns);
    if (row >= 0) for (let x = 0; x < cellColumns; x++) edge[Math.floor(row / rowsPerCell) * cellColumns + x] = 1;
    if (column >= 0) for (let y = 0; y < cellRows; y++) edge[y * cellColumns + Math.floor(column / columnsPerCell)] = 1;
    const fill = Uint32Array.from(edge, (_, cell) => {
      const value = tile.values?.[first(cell)];
      if (value === undefined) return plain;
      return Number.isFinite(value) ? signed[signedStep(most ? value / most : 0)] : bad;
    });
    const stripes = tile.active && Uint32Array.from(edge, (_, cell) => (tile.active?.[first(cell)] ? 0 : quiet));
    picture.paint(fill, line, stripes, edge, text);
  }

  function describe(at: number, row: number, column: number): TipText {
    const { name, columns, values, active } = tiles[at];
    const element = row * columns + column;
    const lines: string[] = [];
    if (active && !active[element]) lines.push("masked");
    if (values) lines.push(numberText(values[element]));
    if (at === 2) lines.push(`row ${row} of A with column ${column} of B, ${formatCount(tiles[0].columns)} products`);
    return { title: `${name}[${row}, ${column}]`, lines };
  }

  show();
  return {
    update(changed) {
      if (changed.has("launch") || changed.has("program") || changed.has("op") || changed.has("theme")) show();
    },
  };
}

function tilesOf(app: App, row: number): Tile[] {
  const events = app.launch.events as Events;
  const shape = app.shape(row);
  const [m, n, k] = shape.slice(-3);
  const a = factor(app, app.factorRow(row, 0), "A", m, k);
  const b = factor(app, app.factorRow(row, 1), "B", k, n);
  const values = app.launch.value(events.value[row]);
  const source = values ? "the result, what was there before included" : "the result; its values are not in this page";
  return [a, b, { name: "C", rows: m, columns: n, values, active: null, source }];
}

/** The factor as the last load of it before the product brought it, where the statement names what it takes. */
function factor(app: App, load: number, name: string, rows: number, columns: number): Tile {
  const events = app.launch.events as Events;
  const none = { name, rows, columns, values: null, active: null };
  if (load < 0) return { ...none, source: "computed in the program, or loaded where the statement does not say" };
  const [tall, wide] = app.shape(load).slice(-2);
  const turned = tall === columns && wide === rows && rows !== columns;
  const origin = `${app.tensorName(load)}, loaded in operation ${app.programRows.indexOf(load)}, line ${app.line(load)}`;
  if (!turned && (tall !== rows || wide !== columns || app.shape(load).length !== 2))
    return { ...none, source: `from ${origin}, in another shape` };
  const values = valuesOf(app, load);
  const pattern = app.launch.patterns[events.pattern[load]];
  const active = maskLanes(app.launch.masks[events.mask[load]], pattern);
  if (!turned) return { ...none, values, active, source: origin };
  const turn = <T extends Numbers | Uint8Array>(given: T | null): T | null =>
    given && (given.map((_, at) => given[(at % columns) * rows + Math.floor(at / columns)]) as T);
  return { ...none, values: turn(values), active: turn(active), source: `${origin}, transposed` };
}

/** What a load brought: kept with it, or still in the tensor, which nothing writes. */
function valuesOf(app: App, row: number): Numbers | null {
  const events = app.launch.events as Events;
  const recorded = app.launch.value(events.value[row]);
  if (recorded) return recorded;
  const tensor = app.launch.tensors[events.tensor[row]];
  if (!tensor?.before || tensor.written) return null;
  const loaded = new Float64Array(app.lanes(row));
  eachLane(app.launch, row, tensor, (lane, index, active) => {
    if (!active || !inside(tensor, index)) return;
    let at = 0;
    for (let dim = 0; dim < index.length; dim++) at = at * tensor.shape[dim] + index[dim];
    loaded[lane] = (tensor.before as Numbers)[at];
  });
  return loaded;
}
