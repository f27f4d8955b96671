// The box beside the pointer, or beside what has the focus, that says what is there.
import { h, replace } from "./dom";

const AWAY_PX = 14;
export type Fact = [name: string, value: string];

export class Tip {
  readonly element = h("div", { class: "tip", attrs: { role: "tooltip", hidden: "" } });

  /** `lines` in words, `facts` as a small table; at a point of the window. */
  show(title: string, lines: string[], facts: Fact[], x: number, y: number): void {
    const rows = facts.map(([name, value]) => h("tr", {}, h("th", { text: name, attrs: { scope: "row" } }), h("td", { text: value })));
    replace(
      this.element,
      h("b", { text: title }),
      ...lines.map((text) => h("p", { text })),
      rows.length ? h("table", {}, h("tbody", {}, ...rows)) : null,
    );
    if (!this.element.isConnected) document.body.append(this.element);
    this.element.hidden = false;
    this.moveTo(x, y);
  }
  hide(): void {
    this.element.hidden = true;
  }

  /** Beside the point, inside the window. */
  private moveTo(x: number, y: number): void {
    const { width, height } = this.element.getBoundingClientRect();
    const right = x + AWAY_PX + width <= innerWidth;
    const below = y + AWAY_PX + height <= innerHeight;
    this.element.style.left = `${Math.max(0, right ? x + AWAY_PX : x - AWAY_PX - width)}px`;
    this.element.style.top = `${Math.max(0, below ? y + AWAY_PX : y - AWAY_PX - height)}px`;
  }
}
