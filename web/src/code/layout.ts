// The columns: the Python and one to three texts side by side, or one at a time as tabs where the window is narrow.
import { h, replace } from "../shared/dom";
import { meaning, MOST_STAGES, title, type App, type View } from "./app";
import { Pane } from "./pane";
import { PythonPane } from "./python";
import { splitter } from "./splitter";

const NARROW = matchMedia("(max-width: 860px)");

export class Layout implements View {
  private readonly python: PythonPane;
  private readonly panes = new Map<string, Pane>();
  private readonly tools = h("div", { class: "toolbar" });
  private readonly columns = h("div", { class: "panes" });
  private visible: string[] = [];

  constructor(
    host: HTMLElement,
    private readonly app: App,
  ) {
    this.python = new PythonPane(app);
    host.append(this.tools, this.columns);
    app.watch(() => this.mark());
    NARROW.addEventListener("change", () => this.arrange());
    this.arrange();
    this.python.show();
  }

  update(changed: ReadonlySet<string>): void {
    const isOther = changed.has("check");
    if (isOther) this.python.show();
    if (isOther || changed.has("raw")) for (const pane of this.panes.values()) pane.show();
    if (isOther || ["stages", "tab", "raw", "sizes"].some((key) => changed.has(key))) this.arrange();
    if (changed.has("theme")) for (const pane of this.panes.values()) pane.redraw();
    this.mark();
    if (isOther || changed.has("line") || changed.has("tab") || changed.has("stages")) this.follow();
  }

  /** The pane that keys are meant for: the last one used, else the first. */
  get current(): Pane | undefined {
    const texts = this.visible.filter((kind) => kind !== "python");
    return this.panes.get(texts.includes(this.app.lastPane) ? this.app.lastPane : texts[0]);
  }
  /** The next or previous place of the chosen line in every text. */
  stepPlaces(by: number): void {
    for (const kind of this.visible) this.panes.get(kind)?.stepPlace(by);
  }
  clearFind(): boolean {
    return [...this.panes.values()].map((pane) => pane.clearFind()).some(Boolean);
  }

  private arrange(): void {
    const tabs = ["python", ...this.app.check.kinds];
    const tab = tabs.includes(this.app.store.get("tab")) ? this.app.store.get("tab") : "python";
    const kinds = NARROW.matches ? [tab] : ["python", ...this.app.stages];
    this.tools.hidden = tabs.length < 2;
    // Made anew, so whatever of it had the focus gets it back.
    const focused = this.tools.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
    replace(this.tools, NARROW.matches ? this.tabs(tabs, tab) : this.stages(), this.rawSwitch());
    if (focused) this.tools.querySelector<HTMLElement>(focused.id ? `#${focused.id}` : `[data-kind="${focused.dataset["kind"]}"]`)?.focus();
    if (NARROW.matches) this.columns.setAttribute("role", "tabpanel");
    else this.columns.removeAttribute("role");
    if (kinds.join() !== this.visible.join()) {
      this.visible = kinds;
      const elements = kinds.map((kind) => (kind === "python" ? this.python.element : this.pane(kind).element));
      const between = elements
        .slice(1)
        .map((_, at) => splitter(this.columns, at, (sizes) => this.app.store.set({ sizes: sizes.map((size) => Math.round(1000 * size)) })));
      replace(this.columns, ...elements.flatMap((element, at) => (at ? [between[at - 1], element] : [element])));
    }
    this.size();
  }

  private size(): void {
    const saved = this.app.store.get("sizes").map((size) => size / 1000);
    const fits = saved.length === this.visible.length && saved.every((size) => size > 0.04);
    const sizes = fits ? saved : this.visible.map((kind) => (kind === "python" ? 1.3 : 1));
    this.columns.style.gridTemplateColumns = sizes.map((size) => `minmax(0, ${size}fr)`).join(" 7px ");
  }

  private pane(kind: string): Pane {
    let pane = this.panes.get(kind);
    if (!pane) {
      pane = new Pane(this.app, kind);
      this.panes.set(kind, pane);
      pane.show();
    }
    return pane;
  }

  private mark(): void {
    this.python.mark();
    for (const kind of this.visible) this.panes.get(kind)?.mark();
  }
  /** Brings the chosen line into sight everywhere. */
  follow(): void {
    this.python.follow();
    for (const kind of this.visible) this.panes.get(kind)?.follow();
  }

  private stages(): HTMLElement {
    const { stages } = this.app;
    const buttons = this.app.check.kinds.map((kind, at) =>
      h("button", {
        text: title(kind),
        title: `${meaning(kind)} (key ${at + 1}; up to ${MOST_STAGES} at once)`,
        attrs: { "aria-pressed": String(stages.includes(kind)), "data-kind": kind },
        on: { click: () => this.app.toggleStage(kind) },
      }),
    );
    return h(
      "span",
      { class: "tools" },
      h("span", { class: "quiet", text: "Beside the source" }),
      h("span", { class: "choice", attrs: { role: "group", "aria-label": "Texts beside the source" } }, ...buttons),
    );
  }

  private tabs(kinds: string[], current: string): HTMLElement {
    const tabs = kinds.map((kind) =>
      h("button", {
        text: kind === "python" ? this.app.language : title(kind),
        title: meaning(kind),
        attrs: {
          type: "button",
          role: "tab",
          "aria-selected": String(kind === current),
          tabindex: kind === current ? "0" : "-1",
          "data-kind": kind,
        },
        on: { click: () => this.app.store.set({ tab: kind }) },
      }),
    );
    const list = h("span", { class: "choice tabs", attrs: { role: "tablist", "aria-label": "Texts" } }, ...tabs);
    list.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.app.store.set({ tab: kinds[(kinds.indexOf(current) + by + kinds.length) % kinds.length] });
      this.tools.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]')?.focus();
    });
    return list;
  }

  private rawSwitch(): HTMLElement {
    const box = h("input", {
      id: "raw",
      attrs: { type: "checkbox" },
      on: { change: () => this.app.store.set({ raw: box.checked }) },
    });
    box.checked = this.app.raw;
    return h("label", { class: "quiet", title: "Also debug information, directives and padding" }, box, " debug information");
  }
}
