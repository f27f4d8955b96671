// The timeline's state: what the reader chose, turned into what is drawn. Asks for a new drawing when it changes.
import { isSameRange } from "../../../shared/codecs";
import type { App } from "../../app";
import { NONE } from "../../data/scene";
import { stepWindows, type StepWindow } from "../../selection";
import type { Changed } from "../../state";
import { Colouring } from "./colouring";
import { lanesOf, type Lane } from "./lanes";
import { layOut, type Group, type Layout } from "./layout";
import { launchedInside } from "./links";
import { pageColours, type PageColours } from "./page-colours";
import type { Picture } from "./picture";
import { Search, type Found } from "./search";
import { Viewport } from "./viewport";
import { ctasOf, type Cta } from "./warps";

const MOST_LINKED = 300;
const SHORTEST_INSIDE_NS = 10; // a region inside a kernel may take a few clock ticks

export class Model implements Picture {
  readonly viewport: Viewport;
  readonly lanes: Lane[];
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
    this.viewport = new Viewport(app.extent(), app.scenes.every(({ isInside }) => isInside) ? SHORTEST_INSIDE_NS : undefined, app.home());
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
    this.layout = this.laidOut();
  }

  /** Takes over what changed elsewhere on the page. */
  update(changed: Changed): void {
    if (changed.has("view") && !isSameRange(this.app.store.get("view"), this.viewport.range)) this.readView();
    if (changed.has("theme")) this.page = pageColours();
    if (changed.has("theme") || changed.has("colour")) {
      this.colouring = new Colouring(this.app, this.page, this.app.store.get("colour") === "kernel");
    }
    if (changed.has("hide")) this.hidden = this.hiddenLabels();
    if (changed.has("hide") || changed.has("q")) this.matchNumber = 0;
    if (changed.has("hide") || changed.has("q")) this.search = new Search(this.app, this.app.store.get("q"), this.hidden);
    if (changed.has("event")) this.readEvent();
    if (changed.has("lanes") || changed.has("event")) this.layout = this.laidOut();
    this.redraw();
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
    this.app.store.set({ event: event && { scene: event.scene, row: event.row } });
  }
  /** Selects an event and moves the view to it where it is out of sight. */
  goTo(event: Found): void {
    this.viewport.reach(...this.timesOf(event));
    this.app.store.set({ event: { scene: event.scene, row: event.row }, view: this.viewport.range });
  }

  isOpen(lane: Lane): boolean {
    return this.switchOf(lane.key) ?? (lane.opensByDefault || this.holds(lane));
  }
  toggle(lane: Lane): void {
    this.switch(lane.key, !this.isOpen(lane), lane.opensByDefault || this.holds(lane));
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
    return layOut(this.groups(), (lane) => this.isOpen(lane), this.available);
  }
  /** Both traces' GPU lanes come first, to be compared; then both traces' threads. */
  private groups(): Group[] {
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
