// The names of the lanes at the left of the picture, with a button each to open or close the lane.
import { h, replace } from "../../../shared/dom";
import { formatCount, formatNs, formatPercent } from "../../../shared/format";
import type { Lane } from "./lanes";
import type { Heading, Placed, PlacedCounter } from "./layout";
import { menuButton, showMenu } from "./lane_menu";
import type { Model, Track } from "./model";

const REFRESH_MS = 100;

export class Gutter {
  private readonly shares = new Map<Lane, HTMLElement>();
  private timer = 0;

  constructor(
    private readonly model: Model,
    private readonly pinned: HTMLElement,
    private readonly scrolled: HTMLElement,
  ) {}

  /** After a change of the layout. */
  render(): void {
    const { placed, counters, headings, pinnedHeight, scrolledHeight } = this.model.layout;
    const focused = (document.activeElement as HTMLElement | null)?.dataset["lane"];
    this.shares.clear();
    for (const [host, isPinned] of [
      [this.pinned, true],
      [this.scrolled, false],
    ] as const) {
      host.style.height = `${isPinned ? pinnedHeight : scrolledHeight}px`;
      replace(
        host,
        ...headings.filter((heading) => heading.pinned === isPinned).map((heading) => this.heading(heading)),
        ...placed.filter((lane) => lane.pinned === isPinned && !lane.thin).map((lane) => this.label(lane)),
        ...counters.filter((counter) => counter.pinned === isPinned).map((counter) => this.counter(counter)),
      );
    }
    if (focused) document.querySelector<HTMLElement>(`.tl-stage [data-lane="${focused}"]`)?.focus();
    this.writeShares();
  }

  /** After the view moved: soon, not for every frame. */
  refresh(): void {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.writeShares();
    }, REFRESH_MS);
  }

  private label({ lane, open, top, height }: Placed): HTMLElement {
    const share = h("span", { class: "tl-share" });
    this.shares.set(lane, share);
    const toggle = this.toggle(lane, open, `${formatCount(lane.source.events)} events, busy for ${formatNs(lane.busyNs)}`);
    const label = h("div", { class: "tl-label" }, h("div", { class: "tl-stuck" }, toggle, share, menuButton(this.model, lane)));
    return placed(label, top, height);
  }

  private counter({ counter, open, top, height }: PlacedCounter): HTMLElement {
    const toggle = this.toggle(counter, open, `most: ${counter.shown(counter.total[counter.peak])}`);
    const peak = h("button", {
      class: "tl-peak",
      text: counter.shown(counter.total[counter.peak]),
      title: counter.holders ? "Go to the peak, and list who holds it" : "Go to the largest value",
      on: { click: () => this.model.choose({ counter, time: counter.starts[counter.peak] }) },
    });
    const keys = counter.series.map(({ name, colour }) => {
      const swatch = h("i", { class: "tl-swatch" });
      swatch.style.background = colour;
      return h("span", { title: name }, swatch, name);
    });
    if (counter.line)
      keys.push(h("span", { title: `${counter.line.name}, the line` }, h("i", { class: "tl-swatch tl-line-swatch" }), counter.line.name));
    const label = h(
      "div",
      { class: "tl-label" },
      h("div", { class: "tl-stuck" }, toggle, peak, menuButton(this.model, counter)),
      open && h("div", { class: "tl-series quiet" }, ...keys),
    );
    return placed(label, top, height);
  }

  /** The name of a track, which opens and closes it; Alt with the arrows moves it. */
  private toggle(track: Track, open: boolean, about: string): HTMLElement {
    const toggle = h(
      "button",
      {
        title: [track.title, about, `Click to ${open ? "close" : "open"} the track; right-click to pin, hide or move it`].join("\n"),
        attrs: { "aria-expanded": String(open), "data-lane": track.key },
        on: {
          click: () => this.model.toggle(track),
          contextmenu: (event) => {
            event.preventDefault();
            showMenu(this.model, track, toggle);
          },
          keydown: (event) => {
            const by = { ArrowUp: -1 as const, ArrowDown: 1 as const }[event.key];
            if (!event.altKey || !by) return;
            event.preventDefault();
            event.stopPropagation();
            this.model.move(track, by);
          },
        },
      },
      h("span", { class: "tl-twist", text: open ? "▾" : "▸", attrs: { "aria-hidden": "true" } }),
      h("span", { class: "tl-name", text: track.title }),
    );
    return toggle;
  }

  private heading({ text, key, folded, top, height }: Heading): HTMLElement {
    if (!key) return placed(h("div", { class: "tl-heading", text, title: text }), top, height);
    const toggle = h(
      "button",
      {
        title: `${text}\nClick to ${folded ? "open" : "fold"} its warps`,
        attrs: { "aria-expanded": String(!folded), "data-lane": key },
        on: { click: () => this.model.fold(key) },
      },
      h("span", { class: "tl-twist", text: folded ? "▸" : "▾", attrs: { "aria-hidden": "true" } }),
      h("span", { class: "tl-name", text }),
    );
    const element = h("div", { class: folded ? "tl-heading tl-folded" : "tl-heading" }, h("div", { class: "tl-stuck" }, toggle));
    return placed(element, top, height);
  }

  private writeShares(): void {
    const { viewport, origins } = this.model;
    for (const [lane, element] of this.shares) {
      const origin = origins[lane.sceneNumber];
      const busy = lane.cover.busy(viewport.from + origin, viewport.to + origin);
      const text = formatPercent((100 * busy) / viewport.span);
      if (element.textContent !== text) element.textContent = text;
      if (!element.title) element.title = "busy share of the time in view";
    }
  }
}

function placed(element: HTMLElement, top: number, height: number): HTMLElement {
  element.style.top = `${top}px`;
  element.style.height = `${height}px`;
  return element;
}
