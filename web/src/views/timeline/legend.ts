// The legend: what each colour means and how much of the selected GPU time it takes; a click hides or shows it.
import { h, replace } from "../../dom";
import { formatNs, formatPercent } from "../../format";
import type { App } from "../../app";
import type { Scene } from "../../data/scene";
import type { Model } from "./model";

export class Legend {
  readonly element = h("div", { class: "tl-legend", attrs: { role: "group", "aria-label": "Kernel categories: press to hide or show" } });
  private readonly kinds = h("div", { class: "tl-kinds quiet" });

  constructor(private readonly model: Model) {
    this.render();
  }

  render(): void {
    const { app } = this.model;
    const spent = app.scenes.map((_, scene) => timeByCategory(app, scene));
    const names = [...new Set(app.scenes.flatMap(categoriesOf))];
    const total = (name: string): number => spent.reduce((sum, each) => sum + (each.get(name) ?? 0), 0);
    names.sort((a, b) => total(b) - total(a));
    const hidden = new Set(app.store.list("hide", "|"));
    replace(this.element, ...names.map((name) => this.chip(name, spent, hidden.has(name), names)), this.showAll(hidden), this.kinds);
    replace(this.kinds, ...this.kernelKeys(), ...this.kindKeys());
  }

  private chip(name: string, spent: Map<string, number>[], isHidden: boolean, all: string[]): HTMLElement {
    const { app, colouring } = this.model;
    const shares = spent.map((each) => {
      const sum = [...each.values()].reduce((a, b) => a + b, 0);
      return formatPercent(sum ? (100 * (each.get(name) ?? 0)) / sum : 0);
    });
    const times = spent.map((each) => formatNs(each.get(name) ?? 0)).join(" and ");
    const chip = h(
      "button",
      {
        class: "tl-chip",
        title: `${name}: ${times} of GPU time in what is selected\nClick to ${isHidden ? "show" : "hide"}, double-click or Alt-click to show only this`,
        attrs: { type: "button", "aria-pressed": String(!isHidden) },
        on: {
          click: (event) => (event.altKey ? this.only(name, all) : this.toggle(name)),
          dblclick: () => this.only(name, all),
        },
      },
      colouring.byKernel ? null : swatch(app.palette.category(name)),
      name,
      h("span", { class: "quiet", text: shares.length > 1 ? shares.map((share, i) => `${"AB"[i]} ${share}`).join(" · ") : shares[0] }),
    );
    chip.dataset["category"] = name;
    return chip;
  }

  private toggle(name: string): void {
    const { store } = this.model.app;
    const hidden = new Set(store.list("hide", "|"));
    if (!hidden.delete(name)) hidden.add(name);
    store.set({ hide: [...hidden].join("|") });
    this.element.querySelector<HTMLElement>(`[data-category="${CSS.escape(name)}"]`)?.focus();
  }
  private only(name: string, all: string[]): void {
    this.model.app.store.set({ hide: all.filter((each) => each !== name).join("|") });
  }
  private showAll(hidden: Set<string>): HTMLElement | null {
    if (!hidden.size) return null;
    return h("button", { text: "Show all", attrs: { type: "button" }, on: { click: () => this.model.app.store.set({ hide: "" }) } });
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
      scene.timedLabels.forEach((used, label) => used && category[label] < 0 && kinds.add(scene.kinds[kind[label]]));
    }
    if (!kinds.size) return [];
    const isInside = kinds.size === 1 && kinds.has("gpu_annotation");
    return [h("span", { text: isInside ? "Inside kernels:" : "Host:" }), ...[...kinds].map((kind) => key(app.palette.kind(kind), kind.replaceAll("_", " ")))];
  }
}

function key(colour: string, text: string, title = ""): HTMLElement {
  return h("span", { class: "tl-key", ...(title ? { title } : {}) }, swatch(colour), h("span", { text }));
}

function swatch(colour: string): HTMLElement {
  const element = h("i", { class: "tl-swatch" });
  element.style.background = colour;
  return element;
}

function categoriesOf(scene: Scene): string[] {
  return scene.data.header.labels.name.map((_, label) => scene.labelCategory(label)).filter(Boolean);
}

/** GPU time per category in what is selected; two compared traces count whole. */
export function timeByCategory(app: App, scene: number): Map<string, number> {
  const { data } = app.scenes[scene];
  const spent = new Map<string, number>();
  const add = (row: number): void => {
    const category = app.scenes[scene].category(row);
    if (category) spent.set(category, (spent.get(category) ?? 0) + data.duration[row]);
  };
  if (app.scene) app.selection.events.forEach((event) => add(data.gpuRow[event]));
  else data.gpuRow.forEach(add);
  return spent;
}
