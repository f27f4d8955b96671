// The panel with everything about the selected event.
import { copyText, h, replace } from "../../../shared/dom";
import { NONE, type Scene } from "../../data/scene";
import { formatNs, formatPercent, formatPlural } from "../../../shared/format";
import { basicFacts, costFacts, gpuFacts, hostFacts, inputFacts, memberRow, type Fact } from "./facts";
import { launchedInside } from "./links";
import type { Model } from "./model";
import { laneOf, selectRange, zoomTo } from "./moves";
import type { Found } from "./search";
import { momentDetails } from "./moment";
import { Overview } from "./overview";
import { runsOf } from "./runners";
import { meanwhile, warpsText } from "./warps";

const MOST_KERNELS = 12;

export class Details {
  readonly element = h("aside", { class: "tl-details", attrs: { "aria-label": "Details of the selected event", tabindex: "-1" } });

  private readonly overview: Overview;

  constructor(private readonly model: Model) {
    this.overview = new Overview(model);
  }

  /** After the view moved: what stands here without an event is about what is in view. */
  refresh(): void {
    if (!this.model.event && !this.model.moment && this.element.offsetParent) this.overview.refresh();
  }

  show(): void {
    const { event, moment } = this.model;
    this.element.parentElement?.classList.toggle("tl-alone", !event && !moment);
    if (moment) return replace(this.element, momentDetails(this.model, moment));
    if (!event) {
      replace(this.element, this.overview.element);
      return this.overview.refresh();
    }
    const scene = this.model.app.scenes[event.scene];
    const isGpu = scene.gpuEvent[event.row] >= 0;
    const basic = basicFacts(this.model.app, event, laneOf(this.model, event)?.fullTitle ?? "");
    const description = h(
      "div",
      { class: "tl-description" },
      this.title(scene, event),
      this.actions(event),
      list([...basic, ...(isGpu ? gpuFacts(scene, event.row) : [...hostFacts(scene, event.row), ...inputFacts(scene, event.row)])]),
      ...(isGpu ? [this.owner(scene, event), this.cost(scene, event)] : [this.kernels(scene, event)]),
      this.context(scene, event),
      scene.isInside ? this.arrows(scene, event) : null,
      scene.isInside ? this.others(scene, event) : null,
    );
    replace(this.element, description);
    this.element.scrollTop = 0;
  }

  private title(scene: Scene, { row }: Found): HTMLElement {
    const name = scene.name(row);
    const copy = h("button", { text: "Copy", title: "Copy the full name" });
    copy.addEventListener("click", () => void copyText(name).then((done) => (copy.textContent = done ? "Copied" : "Not allowed")));
    const close = h("button", {
      text: "×",
      title: "Close (Esc)",
      attrs: { "aria-label": "Close details" },
      on: { click: () => this.model.select(null) },
    });
    const short = scene.short(row);
    return h(
      "div",
      { class: "tl-title" },
      h("div", { class: "tl-titlebar" }, h("h3", { text: short }), copy, close),
      name !== short && h("p", { class: "tl-full", text: name }),
    );
  }

  private actions(event: Found): HTMLElement {
    const { model } = this;
    const { app } = model;
    const [from, to] = model.timesOf(event);
    const scene = app.scenes[event.scene];
    const tables = scene.gpuEvent[event.row] >= 0 ? ["kernels", "roofline"] : [];
    return h(
      "div",
      { class: "tl-actions" },
      action("Zoom to it", () => zoomTo(model, event)),
      model.canSelect && to > from && action("Select its time (M)", () => selectRange(model, from, to)),
      ...tables.map((table) => {
        const row = memberRow(app, table, scene, event.row);
        return row !== NONE && action(`Row in ${table}`, () => app.go({ to: "table", table, row }));
      }),
    );
  }

  private owner(scene: Scene, event: Found): HTMLElement | null {
    const owner = scene.owner(event.row);
    if (owner === NONE) return null;
    return part("Op", this.link(scene, event.scene, owner), list(inputFacts(scene, owner)));
  }

  private cost(scene: Scene, event: Found): HTMLElement | null {
    const row = memberRow(this.model.app, "roofline", scene, event.row);
    if (row === NONE) return null;
    return part("Cost, mean of all calls like this one", list(costFacts(this.model.app, row)));
  }

  private kernels(scene: Scene, event: Found): HTMLElement | null {
    const rows = launchedInside(scene, event.row);
    if (!rows.length) return null;
    const shown = rows.slice(0, MOST_KERNELS).map((row) => h("li", {}, this.link(scene, event.scene, row)));
    const more = rows.length - shown.length;
    return part(
      "GPU work it launched",
      h("ol", {}, ...shown),
      more > 0 && h("p", { class: "quiet", text: `and ${more.toLocaleString("en-US")} more` }),
    );
  }

  private context(scene: Scene, event: Found): HTMLElement | null {
    const path = scene.context(event.row).reverse();
    if (!path.length) return null;
    const items = (rows: number[]): HTMLElement[] => rows.map((row) => h("li", {}, this.link(scene, event.scene, row)));
    const entries = runsOf(path, (row) => scene.name(row)).flatMap(({ runner, frames }) => {
      if (!runner) return items(frames);
      const summary = h("summary", { class: "quiet", text: `${formatPlural(frames.length, "frame")} of the runner or profiler` });
      return h("li", {}, h("details", {}, summary, h("ol", {}, ...items(frames))));
    });
    return part("Called from, outermost first", h("ol", { class: "tl-path" }, ...entries));
  }

  /** Transactions from or to other warps. */
  private arrows(scene: Scene, event: Found): HTMLElement | null {
    const arrows = scene.arrowsOf(event.row).slice(0, MOST_KERNELS);
    if (!arrows.length) return null;
    const entries = arrows.map(([near, far]) => {
      const later = scene.start(far) - scene.start(near);
      const lane = laneOf(this.model, { scene: event.scene, row: far })?.title ?? "";
      const where = `${later < 0 ? "from" : "to"} ${lane}, ${formatNs(Math.abs(later))} ${later < 0 ? "before" : "after"}`;
      const go = { class: "tl-link", text: `${scene.name(far)} ${where}` };
      return h("li", {}, h("button", { ...go, on: { click: () => this.model.goTo({ scene: event.scene, row: far }) } }));
    });
    return part("Arrows between warps", h("ol", {}, ...entries));
  }
  /** Who works and who waits while a region lasts. */
  private others(scene: Scene, event: Found): HTMLElement | null {
    const groups = meanwhile(scene, event.row);
    if (!groups.length) return null;
    const facts = groups.map(({ warps, shares }): Fact => {
      const texts = shares.map(([region, share]) => `${region || "between regions"} ${formatPercent(100 * share)}`);
      return [warpsText(warps), texts.join(", ") || "nothing recorded"];
    });
    return part("Meanwhile, in the same CTA", list(facts));
  }

  private link(scene: Scene, number: number, row: number): HTMLElement {
    const backward = scene.data.forward[row] >= 0 ? ` ${scene.backwardName}` : "";
    const swatch = h("i", { class: "tl-swatch" });
    swatch.style.background = this.model.app.palette.event(scene, row);
    const name = `${scene.short(row)}${backward} `;
    if (!scene.isTimed(row)) return h("span", { class: "tl-link", title: scene.name(row) }, swatch, name);
    return h(
      "button",
      {
        class: "tl-link",
        title: scene.name(row),
        on: { click: () => this.model.goTo({ scene: number, row }) },
      },
      swatch,
      name,
      h("span", { class: "quiet", text: formatNs(scene.data.duration[row]) }),
    );
  }
}

function part(title: string, ...content: (HTMLElement | null | false)[]): HTMLElement {
  return h("div", { class: "tl-part" }, h("h4", { text: title }), ...content);
}

function list(facts: Fact[]): HTMLElement | null {
  if (!facts.length) return null;
  return h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", { class: "quiet", text: name }), h("dd", { text: value })]));
}

function action(text: string, click: () => void): HTMLElement {
  return h("button", { text, on: { click } });
}
