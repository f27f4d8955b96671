// What stands beside the lanes while no event is selected: what the time in view was spent on.
import { h, replace } from "../../../shared/dom";
import { formatCount, formatNs, formatPercent } from "../../../shared/format";
import { gapsOf, measure, workOf } from "../../data/measures";
import type { Scene } from "../../data/scene";
import type { Model } from "./model";
import { momentDetails } from "./moment";

const LEAST_SHOWN = 4;
const NAME_PX = 29;
const AROUND_PX = 235; // what else stands there, gaps included
const GAPS_SHOWN = 3;
const AFTER_MS = 200; // a view that moves is described once it stays

export class Overview {
  readonly element = h("div", { class: "tl-overview" });
  private timer = 0;

  constructor(private readonly model: Model) {}

  refresh(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.show(), AFTER_MS);
  }

  private show(): void {
    const { app, viewport, counters } = this.model;
    const held = counters.find(({ holders }) => holders);
    if (!app.hasTimeline && held) {
      // A memory snapshot is opened to see who holds the peak.
      replace(this.element, momentDetails(this.model, { counter: held, time: held.starts[held.peak] }, false));
      return;
    }
    replace(
      this.element,
      h("h3", { text: `In view: ${formatNs(viewport.span)}` }),
      ...app.scenes.flatMap((scene, number) => this.scene(scene, number)),
      h("p", {
        class: "quiet",
        text: app.hasTimeline ? "Click an event to see its details here." : "Click the area to see what it is made of.",
      }),
    );
  }

  private scene(scene: Scene, number: number): (HTMLElement | null)[] {
    const { app, viewport, origins } = this.model;
    const window: [number, number] = [viewport.from + origins[number], viewport.to + origins[number]];
    const { busy, idle, total } = measure(workOf(scene, null), [window]);
    const share = `GPU busy ${formatPercent((100 * busy) / total)}, idle ${formatNs(idle)}`;
    return [
      app.isDiff ? h("h4", { text: `${"AB"[number]} · ${scene.label}` }) : null,
      scene.hasGpu ? h("p", { text: share }) : null,
      this.heaviest(scene, number, window),
      this.gaps(scene, number, window),
    ];
  }

  /** The names with most time in view, of GPU work where there is any. */
  private heaviest(scene: Scene, number: number, window: [number, number]): HTMLElement | null {
    const names = heaviestIn(scene, window);
    if (!names.length) return null;
    const longest = names[0].ns;
    const rows = names.slice(0, this.room()).map(({ row, ns, count }) => {
      const bar = h("i", { class: "tl-part-bar" });
      bar.style.cssText = `width:${(100 * ns) / longest}%;background:${this.model.app.palette.event(scene, row)}`;
      const link = h("button", {
        class: "tl-link",
        text: scene.short(row),
        title: `${scene.name(row)}\n${formatCount(count)} in view; click for the longest`,
        on: { click: () => this.model.goTo({ scene: number, row }) },
      });
      return h("li", {}, h("span", { class: "tl-line" }, link, h("span", { class: "quiet", text: `${count} × · ${formatNs(ns)}` })), bar);
    });
    const title = scene.hasGpu ? "Most GPU time" : "Most time, callees included";
    const more = names.length - rows.length;
    return h(
      "div",
      { class: "tl-part" },
      h("h4", { text: title }),
      h("ol", {}, ...rows),
      more > 0 && h("p", { class: "quiet", text: `and ${formatCount(more)} more names` }),
    );
  }

  /** How many names fit. */
  private room(): number {
    const height = (this.element.parentElement?.clientHeight ?? 0) / this.model.app.scenes.length;
    return Math.max(LEAST_SHOWN, Math.floor((height - AROUND_PX) / NAME_PX));
  }

  private gaps(scene: Scene, number: number, [from, to]: [number, number]): HTMLElement | null {
    const inView = scene.hasGpu ? gapsOf(scene).filter(({ start, end }) => end > from && start < to) : [];
    if (!inView.length) return null;
    const longest = inView.sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, GAPS_SHOWN);
    const rows = longest.map(({ start, end, cause }) => {
      const origin = this.model.origins[number];
      const zoom = (): void => {
        this.model.viewport.frame(start - origin, end - origin, 0.5);
        this.model.moved();
      };
      const link = h("button", { class: "tl-link", text: cause || "idle", title: "Zoom to this gap", on: { click: zoom } });
      return h("li", {}, h("span", { class: "tl-line" }, link, h("span", { class: "quiet", text: formatNs(end - start) })));
    });
    return h("div", { class: "tl-part" }, h("h4", { text: "Longest gaps" }), h("ol", {}, ...rows));
  }
}

export interface Heavy {
  /** The longest event of this name. */
  row: number;
  ns: number;
  count: number;
}

/** The names of events within a stretch of time, those with most time first; GPU work alone where there is any. */
export function heaviestIn(scene: Scene, [from, to]: [number, number]): Heavy[] {
  const { label, start, duration, gpuRow } = scene.data;
  const byLabel = new Map<number, Heavy>();
  const add = (row: number): void => {
    const ns = Math.min(to, start[row] + duration[row]) - Math.max(from, start[row]);
    if (ns <= 0) return;
    const heavy = byLabel.get(label[row]);
    if (!heavy) byLabel.set(label[row], { row, ns, count: 1 });
    else {
      heavy.ns += ns;
      heavy.count++;
      if (duration[row] > duration[heavy.row]) heavy.row = row;
    }
  };
  if (scene.hasGpu) gpuRow.forEach(add);
  else for (let row = 0; row < scene.count; row++) if (scene.isTimed(row)) add(row);
  return [...byLabel.values()].sort((a, b) => b.ns - a.ns);
}
