// The bar that stays at the window's upper edge: the sections by name, search, theme and help.
import type { App, View } from "../app";
import { h } from "../../shared/dom";
import { helpButton } from "../../shared/help";
import { themeButton } from "../../shared/theme";
import { SearchBox } from "./search_box";

export class StickyBar implements View {
  readonly element: HTMLElement;
  private readonly search: SearchBox | null;

  constructor(app: App, sections: { id: string; title: string }[]) {
    // The ranks of a job are chosen on its timeline.
    this.search = app.job ? null : new SearchBox(app);
    const links = sections.map(({ id, title }, index) => link(app, id, title, index + 1));
    const tools = h("span", { class: "tools" }, this.search?.element, themeButton(app.store), helpButton());
    this.element = h("div", { id: "contents" }, h("nav", { attrs: { "aria-label": "Sections" } }, ...links), tools);
  }

  update(changed: Parameters<View["update"]>[0]): void {
    this.search?.update(changed);
  }
}

/** A section by name; the number is the key that leads there. */
function link(app: App, id: string, title: string, number: number): HTMLElement {
  return h("a", {
    text: title,
    title: `Key ${number}`,
    attrs: { href: `#at=${id}` },
    on: {
      click: (event) => {
        event.preventDefault();
        app.store.jump({ at: id });
        app.reveal(id);
      },
    },
  });
}
