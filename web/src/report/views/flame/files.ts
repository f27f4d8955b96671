// The buttons that save the chart: as a picture, or for other viewers.
import { h, save } from "../../../shared/dom";
import type { Palette } from "../../palette";
import type { Look } from "./facts";
import type { Source } from "./source";
import { svgText } from "./svg";
import type { Zoom } from "./zoom";

export function saveButtons(source: Source, palette: Palette, shown: () => { look: Look; zoom: Zoom } | null): HTMLElement {
  const button = (text: string, title: string, write: (look: Look, zoom: Zoom) => void): HTMLElement =>
    h("button", {
      text,
      title,
      attrs: { "aria-label": `Save ${text}` },
      on: {
        click: () => {
          const now = shown();
          if (now) write(now.look, now.zoom);
        },
      },
    });
  return h(
    "span",
    { class: "flame-control flame-save", attrs: { role: "group", "aria-label": "Save" } },
    h("span", { class: "quiet", text: "Save" }),
    button("SVG", "What is shown, as a picture", (look, zoom) =>
      save(`${source.fileStem()}.svg`, "image/svg+xml", svgText(look, zoom, source.title(), palette)),
    ),
    button("folded", "The whole tree as folded stacks; weights are whole numbers, of times in ns", () =>
      save(`${source.fileStem()}.folded`, "text/plain", source.folded()),
    ),
    button("speedscope", "The whole tree for speedscope.app", () =>
      save(`${source.fileStem()}.speedscope.json`, "application/json", source.speedscope()),
    ),
  );
}
