// Keys that work everywhere on the page, and the help that lists them.
import { h } from "../shared/dom";
import type { App } from "./app";

const SHORTCUTS: [keys: string, meaning: string][] = [
  ["[ ]", "previous, next program"],
  ["j k", "next, previous operation of the program"],
  ["a", "all operations of the program"],
  ["v", "what the maps are coloured by"],
  ["z", "maps: the whole tensor, or what the program touches"],
  ["← ↑ → ↓", "in a picture: read it cell by cell, with Shift eight at a time; Enter chooses a program"],
  ["?", "this help"],
];

export function installKeys(app: App): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) return;
    const actions: Record<string, () => void> = {
      "[": () => app.step("program", -1),
      "]": () => app.step("program", 1),
      j: () => app.step("op", 1),
      k: () => app.step("op", -1),
      a: () => app.store.set({ op: "" }),
      v: nextColouring,
      z: () => app.store.set({ zoom: app.store.get("zoom") ? "" : "program" }),
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

export function showHelp(): void {
  let dialog = document.getElementById("help") as HTMLDialogElement | null;
  if (!dialog) document.body.append((dialog = helpDialog()));
  if (!dialog.open) dialog.showModal();
}

function helpDialog(): HTMLDialogElement {
  const rows = SHORTCUTS.map(([keys, meaning]) =>
    h("tr", {}, h("th", { text: keys, attrs: { scope: "row" } }), h("td", { text: meaning })),
  );
  const close = h("button", { text: "Close", attrs: { type: "button" } });
  const dialog = h(
    "dialog",
    { id: "help", attrs: { "aria-labelledby": "help-title" } },
    h("h2", { id: "help-title", text: "Keys" }),
    h("table", { class: "plain" }, h("tbody", {}, ...rows)),
    h("p", { text: "The address keeps the view: copy it to share." }),
    close,
  );
  close.addEventListener("click", () => dialog.close());
  return dialog;
}
