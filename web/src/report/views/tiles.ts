// The head's tiles: the step in a few numbers, as Python wrote them.
import type { App } from "../app";
import { h } from "../../shared/dom";
import type { Tile } from "../../shared/generated/records";

/** Tables that a section shows. */
const SECTIONS: Record<string, string> = { serving_phases: "serving", token_latency: "serving" };

export function tiles(app: App): HTMLElement | null {
  const shown = app.header.tiles;
  if (!shown.length) return null;
  return h("div", { class: "tiles", attrs: { role: "group", "aria-label": "In numbers" } }, ...shown.map((tile) => element(app, tile)));
}

function element(app: App, { label, value, note, meaning, table }: Tile): HTMLElement {
  return h(
    "button",
    {
      class: "tile",
      title: `${meaning}\nClick to show ${SECTIONS[table] ? "the section Serving" : `the table ${table}`}`,
      on: { click: () => follow(app, table) },
    },
    h("span", { class: "quiet", text: label }),
    h("b", { text: value }),
    h("span", { class: "quiet", text: note }),
  );
}

function follow(app: App, table: string): void {
  const at = SECTIONS[table];
  if (!at) return app.go({ to: "table", table });
  app.store.jump({ at });
  app.reveal(at);
}
