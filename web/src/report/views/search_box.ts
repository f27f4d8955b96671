// The page's search, in the bar that stays in sight: what is typed, how much it finds, and the names that match, kernels
// first.
import type { App, View } from "../app";
import { h, replace } from "../../shared/dom";
import { formatCount, formatNs, formatPlural } from "../../shared/format";
import { foundNames, matchesOf, type FoundName } from "../data/found";

const SHOWN = 8;
const AFTER_MS = 120;

export class SearchBox implements View {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly found = h("span", { id: "found", class: "quiet", attrs: { role: "status", "aria-live": "polite" } });
  private readonly list = h("div", { id: "found-names", attrs: { hidden: "" } });
  private timer = 0;

  constructor(private readonly app: App) {
    const { store } = app;
    this.input = h("input", {
      id: "search",
      attrs: { type: "search", placeholder: "Search  /", "aria-label": "Search kernels, ops, modules and lines" },
      on: {
        input: () => store.set({ q: this.input.value }),
        focus: () => {
          // Else the browser scrolls by the room that sections keep for this very bar, with each letter.
          document.documentElement.style.scrollPaddingTop = "0";
          this.offer();
        },
        blur: () => (document.documentElement.style.scrollPaddingTop = ""),
        keydown: (event) => this.key(event),
      },
    });
    this.input.value = store.get("q");
    this.found.textContent = this.foundText();
    this.element = h("span", { class: "searchbox" }, this.found, this.input, this.list);
    this.element.addEventListener("focusout", (event) => {
      if (!this.element.contains(event.relatedTarget as Node | null)) this.list.hidden = true;
    });
  }

  update(changed: Parameters<View["update"]>[0]): void {
    if (!changed.has("q")) return;
    const { store } = this.app;
    this.found.textContent = this.foundText();
    if (this.input.value !== store.get("q")) this.input.value = store.get("q");
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.offer(), AFTER_MS);
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "ArrowDown" && !this.list.hidden) this.list.querySelector("button")?.focus();
    else if (event.key === "Enter") {
      if (!this.app.hasTimeline) this.toTree();
      // The timeline listens for n and N on the page; from here Enter means the same.
      else document.body.dispatchEvent(new KeyboardEvent("keydown", { key: event.shiftKey ? "N" : "n", bubbles: true }));
      this.list.hidden = true;
    } else return;
    event.preventDefault();
  }

  /** Lists the names that match, while the reader is at the box. */
  private offer(): void {
    const wanted = this.app.store.get("q").trim().toLowerCase();
    const isHere = this.element.contains(document.activeElement);
    const names = wanted && isHere ? this.app.scenes.flatMap((scene, number) => foundNames(scene, number, wanted)) : [];
    this.list.hidden = !names.length;
    const kernels = names.filter(({ isGpu, caller }) => isGpu && caller < 0);
    const ops = names.filter(({ caller }) => caller >= 0);
    const others = names.filter(({ isGpu }) => !isGpu);
    replace(this.list, ...this.group("GPU work", kernels), ...this.group("GPU work by op", ops), ...this.group("Host", others));
  }

  private group(title: string, names: FoundName[]): HTMLElement[] {
    if (!names.length) return [];
    names.sort((a, b) => b.ns - a.ns);
    const more = names.length > SHOWN ? ` (${formatCount(names.length)} names, those with most time)` : "";
    return [h("h3", { text: title + more }), ...names.slice(0, SHOWN).map((name) => this.entry(name))];
  }

  private entry({ scene, row, caller, count, ns }: FoundName): HTMLElement {
    const named = caller >= 0 ? caller : row;
    const source = this.app.scenes[scene];
    const swatch = h("i", { class: "tl-swatch" });
    swatch.style.background = this.app.palette.event(source, row);
    const go = (): void => {
      this.list.hidden = true;
      this.app.go({ to: "event", scene, row });
    };
    return h(
      "button",
      {
        title: `${source.name(named)}\n${whereTo(count, caller >= 0)}`,
        on: { click: go, keydown: (event) => this.walk(event) },
      },
      swatch,
      h("span", { class: "name", text: source.short(named) }),
      h("span", { class: "quiet", text: `${source.sort(named)} · ${formatCount(count)} × · ${formatNs(ns)}` }),
    );
  }
  private walk(event: KeyboardEvent): void {
    const buttons = [...this.list.querySelectorAll("button")];
    const at = buttons.indexOf(event.target as HTMLButtonElement);
    const to = { ArrowDown: buttons[at + 1], ArrowUp: buttons[at - 1] ?? this.input }[event.key];
    if (!to) return;
    event.preventDefault();
    to.focus();
  }

  /** How many events match, beside the box: the matches themselves may be out of sight. */
  private foundText(): string {
    const wanted = this.app.store.get("q").trim().toLowerCase();
    if (!wanted) return "";
    if (!this.app.hasTimeline) return "Enter: to the call tree";
    let count = 0;
    for (const scene of this.app.scenes) for (const flag of matchesOf(scene, wanted).flags) if (flag) count++;
    return count ? `${formatPlural(count, "event")}, Enter: next` : "no event matches";
  }

  private toTree(): void {
    this.app.store.jump({ at: "flame" });
    this.app.reveal("flame");
  }
}

/** What a click on a name does. `isCaller`: the events have other names, and this one led to them. */
function whereTo(count: number, isCaller: boolean): string {
  const which = isCaller ? "GPU events that it led to" : "events of this name";
  return count > 1 ? `Click to go to the longest of the ${formatCount(count)} ${which}` : "Click to go to the event";
}
