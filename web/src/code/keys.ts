// Keys that work everywhere on the page, and the help that lists them.
import { addHelp, showHelp, type Shortcut } from "../shared/help";
import type { App } from "./app";
import type { Layout } from "./layout";

const SHORTCUTS: Shortcut[] = [
  ["↑ ↓", "previous, next line of the source; in a text that has the focus: row by row"],
  ["[ ]", "previous, next place of the chosen line in the texts"],
  ["1 … 5", "show or hide a text beside the source"],
  ["/  or  Ctrl+F", "find in the text that was used last; Enter: next, Shift+Enter: previous"],
  ["D", "debug information, directives and padding"],
  ["F", "fold or unfold what is known of the line"],
  ["Esc", "clear the search, then the line"],
  ["?", "this help"],
];

const PARAGRAPHS = [
  "Point at a line to see what comes from it, or what it comes from; click to choose it and to bring its counterparts into sight. Lines of one colour come from the same line of the source; pale text comes from none.",
  "Beside each line of the source: its machine instructions (+ those of what it calls), its share of a profile's samples where there is one, then what the compiler did: bits per thread of a load (ld), store (st) or asynchronous copy, the matrix instruction, “ahead” for a loop that loads before it needs. Orange is what could be better.",
];

export function installKeys(app: App, layout: Layout): void {
  addHelp(SHORTCUTS, ...PARAGRAPHS);
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (document.querySelector("dialog[open]")) return;
    const inInput = target.matches("input:not([type=checkbox]), select, textarea");
    // The browser's own search sees only the rows in the document. Pressed again, it is the browser's.
    if (event.key === "f" && (event.ctrlKey || event.metaKey) && !event.altKey && !inInput && layout.current) {
      event.preventDefault();
      layout.current.focusFind();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || inInput) return;
    const actions: Record<string, () => void> = {
      ArrowDown: () => app.step(1),
      ArrowUp: () => app.step(-1),
      "[": () => layout.stepPlaces(-1),
      "]": () => layout.stepPlaces(1),
      "/": () => layout.current?.focusFind(),
      d: () => app.store.set({ raw: !app.raw }),
      f: () => app.store.set({ facts: !app.store.get("facts") }),
      Escape: () => void (layout.clearFind() || app.choose(-1)),
      "?": showHelp,
    };
    const stage = app.check.kinds[Number(event.key) - 1];
    const action = actions[event.key] ?? (stage ? () => app.toggleStage(stage) : undefined);
    if (!action) return;
    event.preventDefault();
    action();
  });
}
