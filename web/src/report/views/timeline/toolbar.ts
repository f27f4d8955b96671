// Controls above the timeline, and the line that says what is selected and found.
import type { App } from "../../app";
import { choice, h, press, replace } from "../../../shared/dom";
import { measure, workOf } from "../../data/measures";
import { formatCount, formatNs, formatPercent, formatPlural } from "../../../shared/format";
import { savePng, saveSvg } from "./export";
import { fit, jumpToMatch, zoomBy } from "./moves";
import type { Model } from "./model";
import { addNote } from "./notes";

const COLOURS = [
  ["category", "Category", "Colour kernels by what kind of work they do"],
  ["kernel", "Kernel", "Colour the heaviest kernels each in its own colour"],
] as const;

const TIMES = [
  ["recorded", "As recorded", "Times as the profiler recorded them"],
  ["corrected", "Corrected", "Times as they nearly were without the profiler; tables keep the recorded ones"],
] as const;

const HINT = "Ctrl+wheel zooms · ";
const HINT_SELECT = "Shift+drag selects time · ";

export class Toolbar {
  readonly element: HTMLElement;
  readonly status = h("p", { class: "tl-status", attrs: { role: "status", "aria-live": "polite" } });
  private readonly colour: HTMLElement;
  private readonly clear: HTMLButtonElement;

  constructor(private readonly model: Model) {
    const { store, scenes } = model.app;
    const hasGpu = scenes.some((scene) => scene.hasGpu);
    this.colour = choice("Colour by", COLOURS, store.get("colour"), (colour) => store.set({ colour }));
    this.clear = button("Clear selection", "Describe the whole trace again (Esc)", () => store.set({ range: null, steps: [] }));
    this.element = h(
      "div",
      { class: "tl-bar" },
      hasGpu && h("span", { class: "tl-group" }, h("span", { class: "quiet", text: "Colour by" }), this.colour),
      model.app.data.hasCorrected && h("span", { class: "tl-group" }, h("span", { class: "quiet", text: "Times" }), this.times()),
      h(
        "span",
        { class: "tl-group" },
        button("−", "Zoom out (S or −)", () => zoomBy(model, 1.6), "Zoom out"),
        button("+", "Zoom in (W or +)", () => zoomBy(model, 1 / 1.6), "Zoom in"),
        button("Fit", "Fit the selection, then everything (F)", () => fit(model)),
        this.clear,
        button("Note", "Bookmark the selected event, or what is in view, with a note (B)", () => addNote(model)),
      ),
      h(
        "span",
        { class: "tl-group" },
        button("Save SVG", "Save what is in view as a vector picture", () => saveSvg(model)),
        button("Save PNG", "Save what is in view as a bitmap, twice as sharp as a screen", () => savePng(model)),
        hasGpu &&
          model.canSelect &&
          button("As a table", "The same GPU events as a table", () => model.app.go({ to: "table", table: "gpu_events" })),
      ),
      this.status,
    );
    this.show();
  }

  private times(): HTMLElement {
    const { store } = this.model.app;
    return choice("Times", TIMES, store.get("times"), (times) => {
      // What was selected by time or row means something else afterwards.
      store.jump({ times, range: null, view: null, event: null });
      location.reload();
    });
  }

  show(): void {
    const { app } = this.model;
    press(this.colour, app.store.get("colour"));
    this.clear.hidden = !this.model.windows.length;
    const [selected, matches, hidden] = [this.selectedText(), this.matches(), this.hiddenTracks()];
    const hint =
      !selected &&
      !matches &&
      !hidden &&
      h("span", { class: "quiet", text: `${HINT}${this.model.canSelect ? HINT_SELECT : ""}? for keys` });
    replace(this.status, selected && h("span", { text: selected }), matches, hidden, hint);
  }

  private hiddenTracks(): HTMLElement | null {
    const { hiddenTracks, app } = this.model;
    if (!hiddenTracks.length) return null;
    const title = `Show again: ${hiddenTracks.map((track) => track.title).join(", ")}`;
    return button(`${formatPlural(hiddenTracks.length, "hidden track")}: show`, title, () => app.store.set({ offlanes: [] }));
  }

  /** The selected time in numbers: how the GPU spent it. */
  private selectedText(): string {
    const { app, windows } = this.model;
    if (!app.scene || !windows.length) return "";
    const { total, busy, idle, exposed_communication, exposed_memcpy } = measure(workOf(app.scene, null), windows);
    const share = (ns: number): string => `${formatNs(ns)} (${formatPercent(total ? (100 * ns) / total : 0)})`;
    const parts = [`Selected: ${formatNs(total)}`, `GPU busy ${share(busy)}`, `idle ${share(idle)}${mainCause(app)}`];
    if (exposed_communication) parts.push(`exposed communication ${share(exposed_communication)}`);
    if (exposed_memcpy) parts.push(`exposed copies ${share(exposed_memcpy)}`);
    return app.scene.hasGpu ? parts.join(" · ") : parts[0];
  }

  private matches(): HTMLElement | null {
    const { search } = this.model;
    if (!search.flags) return null;
    const { count, gpuCount } = search;
    const where = this.model.app.scenes.some(({ hasGpu }) => hasGpu) ? ` (${formatCount(gpuCount)} on the GPU)` : "";
    const text = `“${search.query.trim()}”: ${formatCount(count)} events${where}`;
    return h(
      "span",
      { class: "tl-group" },
      h("span", { text: count ? text : `“${search.query.trim()}” is in no name of an event or its op` }),
      count > 0 && button("‹", "Previous match (N)", () => jumpToMatch(this.model, false), "Previous match"),
      count > 0 && button("›", "Next match (n)", () => jumpToMatch(this.model, true), "Next match"),
      this.model.matchNumber > 0 && h("span", { class: "quiet", text: `${formatCount(this.model.matchNumber)} of ${formatCount(count)}` }),
    );
  }
}

function button(text: string, title: string, click: () => void, label = ""): HTMLButtonElement {
  return h("button", { text, title, attrs: { ...(label ? { "aria-label": label } : {}) }, on: { click } });
}

/** Why the GPU was idle in the selection for most of that time. */
function mainCause(app: App): string {
  const idle = app.table("idle");
  if (!idle.rows || app.selection.whole) return "";
  const rows = Array.from({ length: idle.rows }, (_, row) => row);
  const most = rows.reduce((best, row) => (idle.number("total_us", row) > idle.number("total_us", best) ? row : best));
  return `, mostly ${idle.text("cause", most)}`;
}
