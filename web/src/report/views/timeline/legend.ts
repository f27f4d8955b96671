// The legend: what each colour means and how much of the selected GPU time it takes; a click hides or shows it.
import { h, replace } from "../../../shared/dom";
import { formatNs, formatPercent } from "../../../shared/format";
import type { App } from "../../app";
import type { Scene } from "../../data/scene";
import { pathRange } from "../tables/path";
import type { Model } from "./model";
import { togglePath } from "./moves";

export class Legend {
  readonly element = h("div", {
    class: "tl-legend",
    attrs: { role: "group", "aria-label": "What the colours mean: press to hide or show" },
  });
  /** What the colours of host events mean; below the picture. */
  readonly kinds = h("div", { class: "tl-kinds quiet" });

  constructor(private readonly model: Model) {
    this.render();
  }

  render(): void {
    const { app } = this.model;
    const spent = app.scenes.map((_, scene) => timeByCategory(app, scene));
    const names = [...new Set(app.scenes.flatMap(groupsOf))];
    const total = (name: string): number => spent.reduce((sum, times) => sum + (times.get(name) ?? 0), 0);
    names.sort((a, b) => total(b) - total(a));
    // Arrows between warps take no time, and have no colour of their own.
    if (app.scenes.some(({ isInside }) => isInside)) names.splice(names.findIndex((name) => !total(name)) >>> 0);
    const hidden = new Set(app.store.get("hide"));
    const base = app.scenes.some(({ isInside }) => isInside) ? "of the warps' time:" : "of GPU time:";
    const label = names.length ? h("span", { class: "quiet", text: base }) : null;
    replace(
      this.element,
      label,
      ...names.map((name) => this.chip(name, spent, hidden.has(name), names)),
      this.showAll(hidden),
      this.pathChip(),
    );
    replace(this.kinds, ...this.kernelKeys(), ...this.kindKeys());
  }

  private chip(name: string, spent: Map<string, number>[], isHidden: boolean, all: string[]): HTMLElement {
    const { app, colouring } = this.model;
    const isInside = app.scenes.some((scene) => scene.isInside);
    const shares = spent.map((ofScene, scene) => {
      const sum = wholeTime(this.model, scene, ofScene);
      return formatPercent(sum ? (100 * (ofScene.get(name) ?? 0)) / sum : 0);
    });
    const times = spent.map((ofScene) => formatNs(ofScene.get(name) ?? 0)).join(" and ");
    const chip = h(
      "button",
      {
        class: "tl-chip",
        title: `${name}: ${times} ${isInside ? "of the warps' time from first region to last, regions inside it included" : "of GPU time in what is selected"}\nClick to ${isHidden ? "show" : "hide"}, double-click or Alt-click to show only this`,
        attrs: { "aria-pressed": String(!isHidden) },
        on: {
          click: (event) => (event.altKey ? this.only(name, all) : this.toggle(name)),
          dblclick: () => this.only(name, all),
        },
      },
      colouring.byKernel ? null : swatch(groupColour(app, name)),
      name,
      h("span", { class: "quiet", text: shares.length > 1 ? shares.map((share, i) => `${"AB"[i]} ${share}`).join(" · ") : shares[0] }),
    );
    chip.dataset["category"] = name;
    return chip;
  }

  private toggle(name: string): void {
    const { store } = this.model.app;
    const hidden = new Set(store.get("hide"));
    if (!hidden.delete(name)) hidden.add(name);
    store.set({ hide: [...hidden] });
    this.element.querySelector<HTMLElement>(`[data-category="${CSS.escape(name)}"]`)?.focus();
  }
  private only(name: string, all: string[]): void {
    this.model.app.store.set({ hide: all.filter((other) => other !== name) });
  }
  private showAll(hidden: Set<string>): HTMLElement | null {
    if (!hidden.size) return null;
    return h("button", { text: "Show all", on: { click: () => this.model.app.store.set({ hide: [] }) } });
  }

  private pathChip(): HTMLElement | null {
    const { app, page } = this.model;
    if (!app.path?.kind.length) return null;
    const shown = app.store.get("path");
    const chip = h(
      "button",
      {
        class: "tl-chip tl-pathchip",
        title: `The chain of work, launches and waits that decides how long the steps take, simulated for ${pathRange(app)} of the trace (P)`,
        attrs: { "aria-pressed": String(shown) },
        on: {
          click: () => {
            togglePath(this.model);
            this.element.querySelector<HTMLElement>(".tl-pathchip")?.focus();
          },
        },
      },
      swatch(page.path),
      "Critical path",
      h("span", { class: "quiet", text: shown ? pathShares(app) : "P" }),
    );
    const table = h("button", {
      class: "link",
      text: "table",
      title: "The critical path as a table",
      on: { click: () => app.go({ to: "table", table: "critical_path" }) },
    });
    return h("span", { class: "tl-group" }, chip, shown && table);
  }

  private kernelKeys(): Node[] {
    const { colouring, app } = this.model;
    if (!colouring.byKernel) return [];
    const keys = colouring.kernels.map(({ name, colour, ns }) => key(colour, name, `${name}: ${formatNs(ns)}`));
    return [...keys, key(app.palette.category(""), "other kernels")];
  }
  private kindKeys(): Node[] {
    const { app } = this.model;
    const kinds = new Set<string>();
    for (const scene of app.scenes) {
      const { kind, category } = scene.data.header.labels;
      if (scene.isInside) continue;
      scene.timedLabels.forEach((used, label) => used && category[label] < 0 && kinds.add(scene.kinds[kind[label]]));
    }
    if (!kinds.size) return [];
    return [h("span", { text: "Host:" }), ...[...kinds].map((kind) => key(app.palette.kind(kind), kind.replaceAll("_", " ")))];
  }
}

const LEAST_PATH_SHARE = 0.5;

/** What the path is made of, largest first. */
function pathShares(app: App): string {
  const { kind, time, kinds } = app.path!;
  const sums = new Float64Array(Object.keys(kinds).length);
  kind.forEach((code, i) => (sums[code] += time[i]));
  const whole = sums.reduce((a, b) => a + b, 0) || 1;
  const shares = Object.keys(kinds).map((name, code): [string, number] => [name, (100 * sums[code]) / whole]);
  const large = shares.filter(([, share]) => share >= LEAST_PATH_SHARE).sort(([, a], [, b]) => b - a);
  return large.map(([name, share]) => `${name} ${formatPercent(share)}`).join(" · ");
}

function key(colour: string, text: string, title = ""): HTMLElement {
  return h("span", { class: "tl-key", ...(title ? { title } : {}) }, swatch(colour), h("span", { text }));
}

function swatch(colour: string): HTMLElement {
  const element = h("i", { class: "tl-swatch" });
  element.style.background = colour;
  return element;
}

function groupsOf(scene: Scene): string[] {
  return scene.data.header.labels.name.map((_, label) => scene.labelGroup(label)).filter(Boolean);
}

/** The colour of a category, or of a region inside kernels. */
export function groupColour(app: App, name: string): string {
  return app.scenes.some(({ isInside }) => isInside) ? app.palette.region(name) : app.palette.category(name);
}

/** The time that shares of the legend are of: all GPU time shown, or the warps' time from first region to last, as in the
 *  table of regions. */
export function wholeTime(model: Model, scene: number, spent: Map<string, number>): number {
  if (!model.app.scenes[scene].isInside) return [...spent.values()].reduce((a, b) => a + b, 0);
  const shown = model.app.scenes[scene];
  let sum = 0;
  for (const { first, events } of shown.timedLanes) {
    let last = 0;
    for (let row = first; row < first + events; row++) last = Math.max(last, shown.end(row));
    if (events) sum += last - shown.start(first);
  }
  return sum;
}

/** Time per category in what is selected, or per region inside kernels; two compared traces count whole. */
export function timeByCategory(app: App, scene: number): Map<string, number> {
  const { label, duration, gpuRow, header } = app.scenes[scene].data;
  const byLabel = new Float64Array(header.labels.name.length);
  if (app.scenes[scene].isInside) for (let row = 0; row < label.length; row++) byLabel[label[row]] += duration[row];
  else if (app.scene) for (const event of app.selection.events) byLabel[label[gpuRow[event]]] += duration[gpuRow[event]];
  else for (const row of gpuRow) byLabel[label[row]] += duration[row];
  const spent = new Map<string, number>();
  byLabel.forEach((ns, code) => {
    const category = app.scenes[scene].labelGroup(code);
    if (category && ns) spent.set(category, (spent.get(category) ?? 0) + ns);
  });
  return spent;
}
