// The timeline's twin: every GPU event and every host event of the selection as rows of a table.
import type { App, Target } from "../../app";
import type { DecodedColumn } from "../../data/decode";
import type { Scene } from "../../data/scene";
import { Table } from "../../data/table";
import { extraFacts, extraTables } from "./extra";

/** The rows of the table: which scene each is of, and which row or GPU event there. */
interface Chosen {
  scene: Uint8Array;
  event: Uint32Array;
  /** Told apart from all others whatever is selected: places of the second scene come after those of the first. */
  origin: Uint32Array;
}

/** Texts of the page, and new ones at the end. */
export class Texts {
  readonly list: string[];
  private readonly codes = new Map<string, number>();

  constructor(texts: string[]) {
    this.list = texts.slice();
  }
  code(text: string): number {
    let code = this.codes.get(text);
    if (code === undefined) this.codes.set(text, (code = this.list.push(text) - 1));
    return code;
  }
}

type Cell = (scene: Scene, event: number) => number;

class Builder {
  readonly texts: Texts;
  private readonly columns: DecodedColumn[] = [];

  constructor(
    private readonly app: App,
    private readonly chosen: Chosen,
  ) {
    this.texts = new Texts(app.texts);
    if (app.scenes.length < 2) return;
    const labels = app.scenes.map((scene) => this.texts.code(scene.label));
    this.text("trace", "which of the traces", (scene) => labels[app.scenes.indexOf(scene)]);
  }
  number(name: string, unit: string, meaning: string, cell: Cell): void {
    this.columns.push({ name, unit, meaning, kind: "number", values: this.fill(new Float64Array(this.chosen.event.length), cell) });
  }
  text(name: string, meaning: string, cell: Cell): void {
    this.columns.push({ name, unit: "", meaning, kind: "text", values: this.fill(new Int32Array(this.chosen.event.length), cell) });
  }
  finish(name: string, meaning: string): Table {
    const { columns, chosen } = this;
    return new Table({ name, meaning, notes: [], rows: chosen.event.length, columns }, this.texts.list, true, chosen.origin);
  }

  private fill<T extends Float64Array | Int32Array>(values: T, cell: Cell): T {
    const { scene, event } = this.chosen;
    const { scenes } = this.app;
    for (let row = 0; row < event.length; row++) values[row] = cell(scenes[scene[row]], event[row]);
    return values;
  }
}

const sizeOfGpu = (scene: Scene): number => scene.data.gpuRow.length;
const sizeOfAll = (scene: Scene): number => scene.count;

/** All places of each scene that pass, where `size` says how many there are. */
function choose(app: App, size: (scene: Scene) => number, passes: (scene: Scene, event: number) => boolean): Chosen {
  const scene: number[] = [];
  const event: number[] = [];
  const origin: number[] = [];
  let before = 0;
  app.scenes.forEach((source, number) => {
    for (let at = 0; at < size(source); at++) {
      if (!passes(source, at)) continue;
      scene.push(number);
      event.push(at);
      origin.push(before + at);
    }
    before += size(source);
  });
  return { scene: Uint8Array.from(scene), event: Uint32Array.from(event), origin: Uint32Array.from(origin) };
}

function gpuEvents(app: App): Table {
  const selected = app.scene && !app.selection.whole ? new Set(app.selection.events) : null;
  const builder = new Builder(
    app,
    choose(app, sizeOfGpu, (_, event) => !selected || selected.has(event)),
  );
  const { texts } = builder;
  const labels = (scene: Scene): Scene["data"]["header"]["labels"] => scene.data.header.labels;
  const labelOf = (scene: Scene, event: number): number => scene.data.label[scene.data.gpuRow[event]];
  const geometry = (part: 0 | 1): Cell => {
    return ({ data }, event) => (data.geometry[event] < 0 ? -1 : texts.code(data.header.geometries[data.geometry[event]][part]));
  };
  builder.number("start_ms", "ms", "when it began, since the trace's start", ({ data }, event) => data.start[data.gpuRow[event]] / 1e6);
  builder.number("dur_us", "us", "how long it ran", ({ data }, event) => data.duration[data.gpuRow[event]] / 1e3);
  builder.text(
    "kernel",
    "readable short form of the name",
    shortNames(texts, (scene, event) => labelOf(scene, event)),
  );
  builder.text(
    "kernel_category",
    "what the kernel does, derived from its name",
    (scene, event) => labels(scene).category[labelOf(scene, event)],
  );
  builder.text("op", "innermost framework op around the launch; the launching call where there is no op", (scene, event) => {
    const owner = scene.data.owner[event];
    return owner < 0 ? -1 : labels(scene).name[scene.data.label[owner]];
  });
  builder.number("gpu", "", "GPU number", ({ data }, event) => data.gpu[event]);
  builder.number("stream", "", "GPU stream (queue)", ({ data }, event) => data.stream[event]);
  builder.number("step", "", "step that launched it; empty: none", ({ data }, event) => orNothing(data.step[data.gpuRow[event]]));
  builder.text("grid", "blocks in each dimension", geometry(0));
  builder.text("block", "threads per block in each dimension", geometry(1));
  builder.text("name", "name as recorded", (scene, event) => labels(scene).name[labelOf(scene, event)]);
  return builder.finish("gpu_events", "one row per GPU event (kernel, copy, memset): the timeline's GPU lanes");
}

function hostEvents(app: App): Table {
  const selection = app.scene ? app.selection : null;
  const builder = new Builder(
    app,
    choose(app, sizeOfAll, (scene, row) => isHost(scene, row) && (!selection || selection.hasHost(row))),
  );
  const { texts } = builder;
  builder.number("start_ms", "ms", "when it began, since the trace's start", ({ data }, row) => data.start[row] / 1e6);
  builder.number("dur_us", "us", "how long it took, callees included", ({ data }, row) => data.duration[row] / 1e3);
  builder.text(
    "name",
    "name as recorded, modules without their prefix",
    shortNames(texts, ({ data }, row) => data.label[row]),
  );
  const kinds = app.header.kinds.map((kind) => texts.code(kind));
  builder.text(
    "kind",
    "op, Python frame, module, runtime call, annotation …",
    ({ data }, row) => kinds[data.header.labels.kind[data.label[row]]],
  );
  builder.text("thread", "process and thread", (scene, row) => texts.code(scene.lanes[scene.data.lane[row]].title));
  builder.number("step", "", "step that it belongs to; empty: none", ({ data }, row) => orNothing(data.step[row]));
  builder.number("depth", "", "events around it on its thread", ({ data }, row) => data.depth[row]);
  return builder.finish("host_events", "one row per event that is not GPU work: the timeline's host lanes, and marks on its GPU lanes");
}

/** No GPU work; and callers without a time are on no lane. */
function isHost(scene: Scene, row: number): boolean {
  return scene.gpuEvent[row] < 0 && scene.isTimed(row);
}

function orNothing(value: number): number {
  return value < 0 ? NaN : value;
}

/** The text of each label's short name, found once per label. */
function shortNames(texts: Texts, labelOf: Cell): Cell {
  const numbersByScene = new Map<Scene, number[]>();
  return (scene, event) => {
    let codes = numbersByScene.get(scene);
    if (!codes) numbersByScene.set(scene, (codes = scene.data.header.labels.name.map((_, label) => texts.code(scene.labelShort(label)))));
    return codes[labelOf(scene, event)];
  };
}

/** The scene and place that an origin stands for. */
function located(app: App, origin: number, size: (scene: Scene) => number): [scene: number, place: number] {
  let [number, event] = [0, origin];
  while (number < app.scenes.length - 1 && event >= size(app.scenes[number])) event -= size(app.scenes[number++]);
  return [number, event];
}

function gpuTarget(app: App, origin: number): Target {
  const [scene, event] = located(app, origin, sizeOfGpu);
  return { to: "event", scene, row: app.scenes[scene].data.gpuRow[event] };
}

function hostTarget(app: App, origin: number): Target {
  const [scene, row] = located(app, origin, sizeOfAll);
  return { to: "event", scene, row };
}

function total(app: App, count: (scene: Scene) => number): number {
  return app.scenes.reduce((sum, scene) => sum + count(scene), 0);
}

export function registerEvents(): void {
  extraTables.set("gpu_events", gpuEvents);
  extraFacts.set("gpu_events", { rows: (app) => total(app, sizeOfGpu), target: gpuTarget });
  extraTables.set("host_events", hostEvents);
  extraFacts.set("host_events", { rows: (app) => total(app, (scene) => scene.timedCount - sizeOfGpu(scene)), target: hostTarget });
}
