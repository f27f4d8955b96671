// The small box at the pointer that names the event under it.
import { h, replace } from "../../dom";
import { formatCount, formatNs } from "../../format";
import type { Model } from "./model";
import type { Hit } from "./pointer";

const MARGIN = 14;

export class Tip {
  readonly element = h("div", { class: "tl-tip", attrs: { "aria-hidden": "true", hidden: "" } });

  constructor(private readonly model: Model) {}

  show(hit: Hit, x: number, y: number): void {
    const scene = this.model.app.scenes[hit.scene];
    const [from, to] = this.model.timesOf(hit);
    const what = scene.category(hit.row) || scene.kind(hit.row).replaceAll("_", " ");
    replace(
      this.element,
      h("b", { text: scene.short(hit.row) }),
      h("span", { text: `${formatNs(to - from)} · ${what} · at ${formatNs(from)}` }),
      hit.near > 1 && h("span", { text: `the longest of ${formatCount(hit.near)} events here: zoom in to tell them apart` }),
    );
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = Math.min(x + MARGIN, window.innerWidth - offsetWidth - MARGIN);
    const top = y + MARGIN + offsetHeight > window.innerHeight ? y - MARGIN - offsetHeight : y + MARGIN;
    this.element.style.transform = `translate(${Math.max(0, left)}px, ${top}px)`;
  }
  hide(): void {
    this.element.hidden = true;
  }
}
