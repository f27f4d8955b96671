// The box that follows the pointer.
import { h, replace } from "../../dom";
import type { Fact } from "./facts";

const AWAY_PX = 14;

export class Tip {
  readonly element = h("div", { class: "flame-tip", attrs: { role: "tooltip", hidden: "" } });

  show(title: string, facts: Fact[], clientX: number, clientY: number): void {
    const rows = facts.map(([name, value]) => h("tr", {}, h("th", { text: name }), h("td", { text: value })));
    replace(this.element, h("b", { text: title }), rows.length ? h("table", {}, h("tbody", {}, ...rows)) : null);
    this.element.hidden = false;
    this.place(clientX, clientY);
  }
  hide(): void {
    this.element.hidden = true;
  }

  /** Beside the pointer, inside the window. */
  private place(clientX: number, clientY: number): void {
    const { width, height } = this.element.getBoundingClientRect();
    const right = clientX + AWAY_PX + width <= innerWidth;
    const below = clientY + AWAY_PX + height <= innerHeight;
    this.element.style.left = `${Math.max(0, right ? clientX + AWAY_PX : clientX - AWAY_PX - width)}px`;
    this.element.style.top = `${Math.max(0, below ? clientY + AWAY_PX : clientY - AWAY_PX - height)}px`;
  }
}
