// Keys that work everywhere on the page, and the help that lists them.
import { addHelp, showHelp, type Shortcut } from "../shared/help";
import type { App } from "./app";

const SHORTCUTS: Shortcut[] = [
  ["[ ]", "previous, next program"],
  ["j k", "next, previous operation of the program"],
  ["a", "all operations of the program"],
  ["v", "what the maps are coloured by"],
  ["z", "maps: the whole tensor, or what the program touches"],
  ["← ↑ → ↓", "in a picture: read it cell by cell, with Shift eight at a time; Enter chooses a program"],
  ["?", "this help"],
];

export function installKeys(app: App): void {
  addHelp(SHORTCUTS);
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) return;
    const actions: Record<string, () => void> = {
      "[": () => app.step("program", -1),
      "]": () => app.step("program", 1),
      j: () => app.step("op", 1),
      k: () => app.step("op", -1),
      a: () => app.store.set({ op: null }),
      v: nextColouring,
      z: () => app.store.set({ zoom: !app.store.get("zoom") }),
      "?": showHelp,
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function nextColouring(): void {
  const buttons = [...document.querySelectorAll<HTMLElement>("#tensors .choice button")];
  const now = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  buttons[(now + 1) % buttons.length]?.click();
}
