// The timeline's state: what the reader chose, turned into what is drawn. Asks for a new drawing when it changes.
import { isSameRange } from "../../../shared/codecs";
import type { App } from "../../app";
import { NONE } from "../../data/scene";
import { stepWindows, type StepWindow } from "../../selection";
import type { Changed, Note } from "../../state";
import { arranged, moved } from "./arrangement";
import { Colouring } from "./colouring";
import { countersOf, spanOf, type Counter } from "./counters";
import { Lane, lanesOf } from "./lanes";
import { layOut, type Group, type Layout } from "./layout";
import { launchedInside } from "./links";
import { timeOf } from "./notes";
import { pageColours, type PageColours } from "./page-colours";
import type { Picture } from "./picture";
import { Search, type Found } from "./search";
import { Viewport } from "./viewport";
import { ctasOf, type Cta } from "./warps";

/** What has a place of its own in the picture. */
export type Track = Lane | Counter;

/** A moment of a counter. */
export interface Moment {
  counter: Counter;
  time: number;
}

/** What places the tracks. */
export const LAID_OUT_BY = ["lanes", "event", "pins", "offlanes", "laneorder", "theme"] as const;
/** Pixels that the lanes and counters take at least. */
export const LEAST_TALL = 260;
const ALONE = 0.7; // of the height there is, for counters without events
const MOST_LINKED = 300;
const SHORTEST_INSIDE_NS = 10; // a region inside a kernel may take a few clock ticks

export class Model implements Picture {
  readonly viewport: Viewport;
  readonly lanes: Lane[];
  counters: Counter[];
  /** Per scene the CTAs of instrumented kernels. */
  readonly ctas: Cta[][];
  readonly steps: StepWindow[][];
  readonly origins: number[];
  layout: Layout;
  page: PageColours;
  colouring: Colouring;
  search: Search;
  hidden: Uint8Array[];
  event: Found | null = null;
  moment: Moment | null = null;
  linked: number[] = [];
  /** Which match was jumped to, counted in time from 1; 0: none yet. */
  matchNumber = 0;
  scrolled = 0;
  height = 0;
  /** Height that the lanes may take. */
  available = 500;
  private dragged: [number, number] | null = null;

  constructor(
    readonly app: App,
    readonly redraw: () => void,
  ) {
    this.counters = countersOf(app);
    this.viewport = app.hasTimeline
      ? new Viewport(app.extent(), app.scenes.every(({ isInside }) => isInside) ? SHORTEST_INSIDE_NS : undefined, app.home())
      : new Viewport(spanOf(this.counters));
    this.origins = app.scenes.map((_, scene) => app.origin(scene));
    this.steps = app.scenes.map(stepWindows);
    this.lanes = lanesOf(app);
    this.ctas = app.scenes.map((scene, number) => {
      const own = scene.isInside ? this.lanes.filter((lane) => lane.sceneNumber === number) : [];
      return ctasOf(own, app.scenes.length > 1 ? `${number}.` : "");
    });
    this.page = pageColours();
    this.colouring = new Colouring(app, this.page, app.store.get("colour") === "kernel");
    this.hidden = this.hiddenLabels();
    this.search = new Search(app, app.store.get("q"), this.hidden);
    this.readView();
    this.readEvent();
    this.readMoment();
    this.layout = this.laidOut();
  }

  /** Takes over what changed elsewhere on the page. */
  update(changed: Changed): void {
    if (changed.has("view") && !isSameRange(this.app.store.get("view"), this.viewport.range)) this.readView();
    if (changed.has("theme")) {
      this.page = pageColours();
      this.counters = countersOf(this.app);
    }
    if (changed.has("theme") || changed.has("colour")) {
      this.colouring = new Colouring(this.app, this.page, this.app.store.get("colour") === "kernel");
    }
    if (changed.has("hide")) this.hidden = this.hiddenLabels();
    if (changed.has("hide") || changed.has("q")) this.matchNumber = 0;
    if (changed.has("hide") || changed.has("q")) this.search = new Search(this.app, this.app.store.get("q"), this.hidden);
    if (changed.has("event")) this.readEvent();
    if (changed.has("moment") || changed.has("theme")) this.readMoment();
    if (LAID_OUT_BY.some((key) => changed.has(key))) this.layout = this.laidOut();
    this.redraw();
  }

  get notes(): readonly Note[] {
    return this.app.store.get("notes").filter(({ event }) => !event || event.row < (this.app.scenes[event.scene]?.count ?? 0));
  }
  get noteTimes(): number[] {
    return this.notes.map((note) => timeOf(this, note));
  }
  /** Selected stretches of time on the timeline. */
  get windows(): [number, number][] {
    if (this.dragged) return [this.dragged];
    return this.app.scene && !this.app.selection.whole ? this.app.selection.windows : [];
  }
  get canSelect(): boolean {
    return this.app.scene !== null;
  }
  /** Shows a range while it is dragged; null: no longer. */
  drag(range: [number, number] | null): void {
    this.dragged = range;
    this.redraw();
  }

  /** After the view was moved: updates the address and draws. */
  moved(): void {
    this.app.store.set({ view: this.viewport.range });
    this.redraw();
  }
  resized(width: number, available: number): void {
    this.viewport.width = Math.max(50, width);
    this.available = available;
    this.layout = this.laidOut();
    this.redraw();
  }

  /** Start and end of an event on the timeline. */
  timesOf({ scene, row }: Found): [number, number] {
    const events = this.app.scenes[scene];
    return [events.start(row) - this.origins[scene], events.end(row) - this.origins[scene]];
  }
  select(event: Found | null): void {
    this.app.store.set({ event: event && { scene: event.scene, row: event.row }, moment: null });
  }
  /** Selects an event and moves the view to it where it is out of sight. */
  goTo(event: Found): void {
    this.viewport.reach(...this.timesOf(event));
    this.app.store.set({ event: { scene: event.scene, row: event.row }, view: this.viewport.range, moment: null });
  }
  /** Selects a moment of a counter, and brings it into view. */
  choose(moment: Moment | null): void {
    if (moment) {
      const { time } = moment;
      this.viewport.reach(time - this.viewport.span / 1000, time + this.viewport.span / 1000);
    }
    const chosen = moment && { key: moment.counter.key, time: Math.round(moment.time) };
    this.app.store.set({ moment: chosen, event: null, view: this.viewport.range });
  }

  isOpen(track: Track): boolean {
    return this.switchOf(track.key) ?? this.opensByDefault(track);
  }
  toggle(track: Track): void {
    this.switch(track.key, !this.isOpen(track), this.opensByDefault(track));
  }
  private opensByDefault(track: Track): boolean {
    return track instanceof Lane ? track.opensByDefault || this.holds(track) : track.tall;
  }

  isPinned(track: Track): boolean {
    const placed = [...this.layout.placed, ...this.layout.counters].find(
      (entry) => ("lane" in entry ? entry.lane : entry.counter) === track,
    );
    return placed?.pinned ?? false;
  }
  pin(track: Track, open: boolean): void {
    const others = this.app.store.get("pins").filter(({ key }) => key !== track.key);
    this.app.store.set({ pins: [...others, { key: track.key, open }] });
  }
  hide(track: Track): void {
    this.app.store.set({
      offlanes: [...this.app.store.get("offlanes"), track.key],
      ...(this.event && track instanceof Lane && this.holds(track) ? { event: null } : {}),
    });
  }
  /** The hidden tracks that would be there. */
  get hiddenTracks(): Track[] {
    const hidden = new Set(this.app.store.get("offlanes"));
    return [...this.lanes, ...this.counters].filter(({ key }) => hidden.has(key));
  }
  /** Exchanges a track with the next one that is shown in the same part. */
  move(track: Track, by: 1 | -1): void {
    const shown = this.groups().flatMap(({ lanes }) => lanes);
    const beside = new Set(shown.filter((other) => this.isPinned(other) === this.isPinned(track)).map(({ key }) => key));
    const all = arranged(this.usualOrder(), this.app.store.get("laneorder")).map(({ key }) => key);
    this.app.store.set({ laneorder: moved(all, track.key, by, (key) => beside.has(key)) });
  }
  private usualOrder(): Track[] {
    const gpu = this.lanes.filter((lane) => lane.onGpu);
    return [...gpu, ...this.counters, ...this.lanes.filter((lane) => !lane.onGpu)];
  }
  /** Whether the warps of a CTA are shown each for itself. */
  isUnfolded(cta: Cta): boolean {
    return this.switchOf(cta.key) ?? (cta.opensByDefault || cta.lanes.some((lane) => this.holds(lane)));
  }
  fold(key: string): void {
    const cta = this.ctas.flat().find((candidate) => candidate.key === key);
    if (!cta) return;
    this.switch(key, !this.isUnfolded(cta), cta.opensByDefault || cta.lanes.some((lane) => this.holds(lane)));
  }
  /** What was chosen by hand for a lane, or null. */
  private switchOf(key: string): boolean | null {
    return this.app.store.get("lanes").find((entry) => entry.key === key)?.open ?? null;
  }
  private switch(key: string, open: boolean, byDefault: boolean): void {
    const others = this.app.store.get("lanes").filter((entry) => entry.key !== key);
    this.app.store.set({ lanes: open === byDefault ? others : [...others, { key, open }] });
  }
  private holds(lane: Lane): boolean {
    const { event } = this;
    return event?.scene === lane.sceneNumber && lane.scene.data.lane[event.row] === lane.source.number;
  }

  private laidOut(): Layout {
    const pins = new Map(this.app.store.get("pins").map(({ key, open }) => [key, open]));
    const choices = { isOpen: (track: Track) => this.isOpen(track), isPinned: (track: Track) => pins.get(track.key) ?? null };
    return layOut(this.groups(), choices, this.available, this.app.hasTimeline ? LEAST_TALL : ALONE * this.available);
  }
  /** Both traces' GPU lanes come first, to be compared; then both traces' threads. */
  private groups(): Group[] {
    const hidden = new Set(this.app.store.get("offlanes"));
    const order = this.app.store.get("laneorder");
    const isShown = (track: Track): boolean => !hidden.has(track.key) || (track instanceof Lane && this.holds(track));
    const groups =
      !this.app.isDiff && !this.app.scene?.isInside ? [{ gpu: null, heading: "", lanes: this.usualOrder() }] : this.scenesApart();
    return groups.map((group) => ({ ...group, lanes: arranged(group.lanes, order).filter(isShown) }));
  }
  private scenesApart(): Group[] {
    const of = (gpu: boolean): Group[] =>
      this.app.scenes.flatMap((scene, number) => {
        const which = this.app.isDiff ? `${"AB"[number]} · ` : "";
        if (scene.isInside) return gpu ? [] : this.warps(number, which);
        return {
          gpu,
          heading: which && `${which}${scene.label}${gpu ? "" : " · CPU threads"}`,
          lanes: this.lanes.filter((lane) => lane.sceneNumber === number && lane.onGpu === gpu),
        };
      });
    return [...of(true), ...of(false)];
  }
  /** A group per CTA: nothing of it is pinned, as there is nothing that the rest would be compared with. */
  private warps(scene: number, which: string): Group[] {
    return this.ctas[scene].map((cta) => ({
      gpu: false,
      above: cta.kernel && which + cta.kernel,
      heading: cta.title,
      key: cta.key,
      folded: !this.isUnfolded(cta),
      lanes: cta.lanes,
    }));
  }

  private readView(): void {
    const view = this.app.store.get("view");
    if (view && view[1] > view[0]) this.viewport.show(...view);
    else this.viewport.showHome();
  }
  private readEvent(): void {
    const event = this.app.store.get("event");
    this.event = event && event.row < (this.app.scenes[event.scene]?.count ?? 0) ? event : null;
    this.linked = this.event ? this.linksOf(this.event) : [];
  }
  private readMoment(): void {
    const chosen = this.app.store.get("moment");
    const counter = chosen && this.counters.find(({ key }) => key === chosen.key);
    this.moment = counter && chosen ? { counter, time: chosen.time } : null;
  }
  private linksOf({ scene, row }: Found): number[] {
    const events = this.app.scenes[scene];
    if (events.isInside) return events.arrowsOf(row).map(([, far]) => far);
    const launch = events.launch(row);
    if (events.gpuEvent[row] >= 0) return launch === NONE ? [] : [launch];
    return launchedInside(events, row).slice(0, MOST_LINKED);
  }

  private hiddenLabels(): Uint8Array[] {
    const hidden = new Set(this.app.store.get("hide"));
    return this.app.scenes.map((scene) =>
      Uint8Array.from(scene.data.header.labels.name, (_, label) => (hidden.has(scene.labelGroup(label)) ? 1 : 0)),
    );
  }
}
