// Keys that work everywhere on the page, and the help that lists them.
import { addHelp, showHelp, type Shortcut } from "../shared/help";
import type { App } from "./app";

const SHORTCUTS: Shortcut[] = [
  ["v", "what the tiles are numbered by"],
  ["a", "next access"],
  ["[ ]", "previous, next wavefront"],
  ["Esc", "frame nothing"],
  ["← ↑ → ↓", "in a picture: read it cell by cell, with Shift eight at a time; Enter frames all elements with the same number"],
  ["?", "this help"],
];

export function installKeys(app: App): void {
  addHelp(SHORTCUTS, "Shared memory has 32 banks of 4 bytes. Lanes that need different words of one bank wait for each other.");
  const { store } = app;
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) return;
    const step = (by: number): void => store.set({ wave: Math.max(0, Math.min(app.mostWaves - 1, store.get("wave") + by)) });
    const actions: Record<string, () => void> = {
      v: () => {
        const now = app.choices.indexOf(store.get("show") || app.choices[0]);
        store.set({ show: app.choices[(now + 1) % app.choices.length], pick: null });
      },
      a: () => store.set({ access: (store.get("access") + 1) % Math.max(1, app.accessNames.length), wave: 0 }),
      "[": () => step(-1),
      "]": () => step(1),
      Escape: () => store.set({ pick: null }),
      "?": showHelp,
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
