// What every view sees: the data, the reader's choices, and the way from one view to another.
import { Palette } from "./palette";
import type { Decoded } from "./data/decode";
import { Job } from "./data/job";
import { spanOfEvents } from "./data/members";
import { Scene } from "./data/scene";
import { Table } from "./data/table";
import { regroup } from "./regroup/index";
import { select, stepWindows, type Selection } from "./selection";
import type { Changed, Sort, State, Store } from "./state";
import type { Range } from "../shared/codecs";

/** A section of the page. `update` is called after each change of the state, with the keys that changed. */
export interface View {
  update(changed: Changed): void;
}
export type Mount = (host: HTMLElement, app: App) => View;

export interface TableRow {
  table: string;
  row: number;
}
/** Somewhere to go: an event, a stretch of time, a step, a collective of a job, a rank's step, or the rows of a table. */
export type Target =
  /** `zoom`: to the event, or where it is short to all that is behind this row of a table. */
  | { to: "event"; scene: number; row: number; zoom?: TableRow }
  | { to: "range"; from: number; until: number }
  | { to: "step"; step: number }
  | { to: "collective"; match: number }
  | { to: "rank"; rank: number; from: number; until: number }
  | { to: "table"; table: string; filter?: string; sort?: Sort; row?: number };

const SECTION_OF = {
  event: "timeline",
  range: "timeline",
  step: "steps",
  collective: "timeline",
  rank: "timeline",
  table: "tables",
} as const;
const ZOOMED_MARGIN = 1.5; // of an event's length, on both sides: it fills a quarter of the view
const SHORTEST_ZOOM = 0.01; // of a step: what is shorter says little on its own
/** What takes the keys of a section. */
const KEYBOARD = "[role=application], [role=grid]";
const HOME_SHARE = 0.8; // of the whole time: beyond it nothing is won by showing less
const HOME_MARGIN = 0.03;
const LEAST_EXTENT = 1000; // ns: a trace of one empty event still has a width

export class App {
  readonly scenes: Scene[];
  readonly palette: Palette;
  readonly texts: string[];
  /** The ranks of a job, on the page of one. */
  readonly job: Job | null;
  private readonly whole: Map<string, Table>;
  private tablesByName = new Map<string, Table>();
  private chosen: Selection | null = null;

  constructor(
    readonly data: Decoded,
    readonly store: Store,
  ) {
    const { header } = data;
    this.texts = header.texts;
    this.scenes = data.scenes.map((scene) => new Scene(scene, header.texts, header.kinds));
    this.job = data.job && new Job(data.job, header.texts);
    this.palette = new Palette(header);
    this.palette.nameRegions(regionsByTime(this.scenes.filter(({ isInside }) => isInside)));
    this.whole = new Map(data.tables.map((table) => [table.name, new Table(table, header.texts)]));
    store.listen((changed) => {
      if (changed.has("steps") || changed.has("range")) {
        this.chosen = null;
        this.tablesByName.clear();
      }
    });
  }

  get header(): Decoded["header"] {
    return this.data.header;
  }
  get path(): Decoded["path"] {
    return this.data.path;
  }
  get isDiff(): boolean {
    return this.header.mode === "diff";
  }
  /** Two profiles compared, or one that holds sums alone, may have no events at all. */
  get hasTimeline(): boolean {
    return this.scenes.length > 0;
  }
  /** The trace that selections are about: the only one; none when two are compared or there is no timeline. */
  get scene(): Scene | null {
    return this.isDiff ? null : (this.scenes[0] ?? null);
  }
  get selection(): Selection {
    if (!this.scene) throw new Error("there is no trace to select from");
    return (this.chosen ??= select(this.scene, this.store));
  }
  /** Where a scene's time begins on the timeline, in its own ns: two traces are laid over each other by their first step. */
  origin(scene: number): number {
    if (!this.isDiff) return 0;
    const chosenScene = this.scenes[scene];
    return stepWindows(chosenScene)[0]?.from ?? chosenScene.gpuSpan[0];
  }
  /** First and last moment of everything, on the timeline. */
  extent(): [number, number] {
    const spans = this.scenes.map((scene, number) => scene.span.map((time) => time - this.origin(number)));
    const [from, to] = [Math.min(...spans.map(([first]) => first)), Math.max(...spans.map(([, last]) => last))];
    return [from, Math.max(to, from + LEAST_EXTENT)];
  }
  /** What the timeline shows at first: everything, or the GPU's work and its launches where little happens around them. */
  home(): [number, number] {
    const extent = this.extent();
    if (!this.scene?.hasGpu || this.scene.isInside) return extent;
    // A graph may run long after its launch: lanes of threads that had done all before would be empty.
    const [first, last] = [Math.min(this.scene.firstLaunch, this.scene.gpuSpan[0]), this.scene.gpuSpan[1]];
    const margin = HOME_MARGIN * (last - first);
    const home: [number, number] = [Math.max(extent[0], Math.floor(first - margin)), Math.min(extent[1], Math.ceil(last + margin))];
    return home[1] - home[0] < HOME_SHARE * (extent[1] - extent[0]) && home[1] - home[0] > LEAST_EXTENT ? home : extent;
  }
  /** Whether steps are marked: gains are then per step. */
  get hasSteps(): boolean {
    return ["steps", "rank_steps"].some((name) => this.hasTable(name) && this.wholeTable(name).rows > 0);
  }
  get tableNames(): string[] {
    return [...this.whole.keys()];
  }
  hasTable(name: string): boolean {
    return this.whole.has(name);
  }
  /** The table as the report made it, whatever is selected. */
  wholeTable(name: string): Table {
    const table = this.whole.get(name);
    if (!table) throw new Error(`no table ${name}`);
    return table;
  }
  /** The table for what is selected. */
  table(name: string): Table {
    const whole = this.wholeTable(name);
    if (!this.scene || this.selection.whole) return whole;
    let table = this.tablesByName.get(name);
    if (!table) {
      table = regroup(whole, this.scene, this.selection, (other) => this.whole.get(other));
      this.tablesByName.set(name, table);
    }
    return table;
  }

  /** Shows the target in its own section, brings that into sight and gives it the keyboard. */
  go(target: Target): void {
    const at = SECTION_OF[target.to];
    this.store.jump({ ...this.stateFor(target), at });
    this.reveal(at);
  }

  private stateFor(target: Target): Partial<State> {
    switch (target.to) {
      case "event":
        return {
          event: { scene: target.scene, row: target.row },
          moment: null,
          view: this.viewAround(target.scene, target.row, target.zoom ?? null),
        };
      case "range":
        return { range: [target.from, target.until], steps: [], view: widened(target.from, target.until) };
      case "step":
        return { steps: [target.step], range: null, ...this.viewOfStep(target.step) };
      case "collective":
        return this.stateForCollective(target.match);
      case "rank":
        return { view: widened(target.from, target.until, 0.02), rank: target.rank, call: null };
      case "table":
        return { table: target.table, filter: target.filter ?? "", sort: target.sort ?? null, row: target.row ?? null };
    }
  }

  private stateForCollective(match: number): Partial<State> {
    const call = this.job?.callOf(match) ?? -1;
    if (!this.job || call < 0) return {};
    const calls = this.job.matched(call);
    const from = Math.min(...calls.map((each) => this.job!.data.start[each]));
    const until = Math.max(...calls.map((each) => this.job!.end(each)));
    return { call, view: widened(from, until, 1) };
  }

  reveal(section: string): void {
    const element = document.getElementById(section);
    if (!element) return;
    element.scrollIntoView({ block: "start" });
    const inside = element.querySelector<HTMLElement>(KEYBOARD) ?? element.querySelector<HTMLElement>("h2");
    inside?.focus({ preventScroll: true });
  }

  private viewOfStep(step: number): Pick<State, "view"> | null {
    const window = this.scene && stepWindows(this.scene).find((candidate) => candidate.step === step);
    return window ? { view: widened(window.from, window.to, 0.02) } : null;
  }

  /** Where an event is too short to tell anything: its step's part that holds all of its kind; null where it is long. */
  private zoomed(number: number, row: number, kind: TableRow): Range | null {
    const scene = this.scenes[number];
    const step = scene.data.step[row];
    const window = stepWindows(scene).find((candidate) => candidate.step === step);
    const [first, last] = window ? [window.from, window.to] : scene.gpuSpan;
    const least = SHORTEST_ZOOM * (last - first);
    if (scene.data.duration[row] >= least) return null;
    const span = spanOfEvents(scene, kind.table, kind.row, step);
    const [from, to] = span && span[1] - span[0] >= least ? span : [first, last];
    return widened(from - this.origin(number), to - this.origin(number));
  }

  /** The present view of the timeline where the event is well inside it, else one around the event. */
  private viewAround(scene: number, row: number, zoom: TableRow | null): Range | null {
    const { start, duration } = this.scenes[scene].data;
    const from = start[row] - this.origin(scene);
    const to = from + duration[row];
    const view = this.store.get("view") ?? this.home();
    if (zoom) return this.zoomed(scene, row, zoom) ?? widened(from, to, ZOOMED_MARGIN);
    const fits = from >= view[0] && to <= view[1] && to - from > (view[1] - view[0]) / 500;
    return fits ? this.store.get("view") : widened(from, to, 10);
  }
}

/** The regions inside kernels, those with most time first. */
function regionsByTime(scenes: Scene[]): string[] {
  const spent = new Map<string, number>();
  for (const scene of scenes) {
    for (let row = 0; row < scene.count; row++) {
      const name = scene.name(row);
      spent.set(name, (spent.get(name) ?? 0) + scene.data.duration[row]);
    }
  }
  return [...spent].sort(([, a], [, b]) => b - a).map(([name]) => name);
}

function widened(from: number, to: number, times = 0.1): Range {
  const margin = Math.max(1000, (to - from) * times);
  return [Math.round(from - margin), Math.round(to + margin)];
}
