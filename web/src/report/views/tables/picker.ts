// The list of tables beside the one that is shown; arrow keys walk it.
import type { App } from "../../app";
import { h, replace } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import { catalog } from "./catalog";
import { wholeRows } from "./extra";

export class Picker {
  readonly element = h("nav", { class: "tv-picker", attrs: { "aria-label": "Tables" } });
  private buttons: HTMLButtonElement[] = [];

  constructor(
    private readonly app: App,
    private readonly choose: (table: string) => void,
  ) {
    this.element.addEventListener("keydown", (event) => this.move(event));
  }

  build(): void {
    this.buttons = [];
    const groups = catalog(this.app).map(([title, tables]) => {
      const items = tables.map((name) => h("li", {}, this.button(name)));
      return h("div", {}, h("h3", { text: title }), h("ul", {}, ...items));
    });
    replace(this.element, ...groups);
  }

  mark(table: string): void {
    for (const button of this.buttons) {
      const current = button.dataset["table"] === table;
      button.tabIndex = current ? 0 : -1;
      if (current) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  private button(name: string): HTMLButtonElement {
    const rows = wholeRows(this.app, name);
    const count = Number.isNaN(rows) ? "" : formatCount(rows);
    const button = h(
      "button",
      {
        class: rows === 0 ? "none" : "",
        title: count ? `${count} ${rows === 1 ? "row" : "rows"} for the whole trace` : "",
        attrs: { "data-table": name },
        on: { click: () => this.choose(name) },
      },
      h("span", { text: name }),
      h("span", { class: "tv-count", text: count }),
    );
    this.buttons.push(button);
    return button;
  }

  private move(event: KeyboardEvent): void {
    const at = this.buttons.indexOf(event.target as HTMLButtonElement);
    const last = this.buttons.length - 1;
    const to = { ArrowDown: Math.min(last, at + 1), ArrowUp: Math.max(0, at - 1), Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.buttons[to].focus();
  }
}
