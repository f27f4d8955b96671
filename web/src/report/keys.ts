// Keys that work everywhere on the page: / searches, ? explains, Escape takes back.
import type { App } from "./app";
import { h } from "../shared/dom";

const SHORTCUTS: [keys: string, meaning: string][] = [
  ["/", "search kernels, ops, modules and lines; Enter: next match"],
  ["n  N", "next, previous match on the timeline"],
  ["?", "this help"],
  ["Esc", "close help, clear the search, then the selection"],
  ["Tab", "to the next control; charts take the keys below once they have the focus"],
  ["W S  or  + −", "timeline: zoom in, out"],
  ["A D  or  ← →", "timeline: move left, right"],
  ["Home End", "timeline: to the beginning, the end; tables: first, last row"],
  ["↑ ↓", "timeline: scroll the lanes; tables: move the row; flame graph: caller, callee"],
  ["[ ]", "timeline: previous, next event of the row"],
  ["{ }", "timeline: from a kernel to its launch and back"],
  ["F", "timeline: fit the selected time, then the event, then everything"],
  ["M", "timeline: select the time that the event takes"],
  ["Enter", "timeline: details of the event; flame graph: zoom in; tables: show the row on the timeline"],
  ["Backspace", "flame graph: zoom out; its + and − widen and narrow around the frame"],
  ["Ctrl+wheel", "timeline: zoom at the pointer; over its ruler the wheel alone does"],
  ["Shift+wheel", "timeline: move left, right"],
  ["Shift+drag", "timeline: select a range of time (or drag on the ruler; click a step there to select it)"],
];

const SELECTING =
  "Drag on the timeline to move, drag with Shift (or on the ruler) to select a range; click a step to describe it alone. Every section then tells of the selection. ";

export function installKeys(app: App, sections: string[]): void {
  const dialog = helpDialog(app, sections.length);
  document.body.append(dialog);
  document.addEventListener("keydown", (event) => {
    // The open help takes the keys itself: Escape closes it, and no more.
    if (dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape") back(app, event.target);
    else if (typing) return;
    else if (event.key === "/") {
      event.preventDefault();
      (document.getElementById("search") as HTMLInputElement | null)?.focus();
    } else if (event.key === "?") dialog.showModal();
    else if (sections[Number(event.key) - 1]) {
      app.store.jump({ at: sections[Number(event.key) - 1] });
      app.reveal(sections[Number(event.key) - 1]);
    }
  });
}

/** One step back towards the whole trace. */
function back(app: App, target: EventTarget | null): void {
  const { store } = app;
  if (target instanceof HTMLInputElement && !target.value) target.blur();
  if (store.get("q")) store.set({ q: "" });
  else if (store.get("event")) store.set({ event: "" });
  else store.set({ range: "", steps: "" });
}

export function showHelp(): void {
  (document.getElementById("help") as HTMLDialogElement | null)?.showModal();
}

/** What a key does on this page, "" for nothing: without a timeline nothing leads there. */
function meaningOn(app: App, meaning: string): string {
  const parts = meaning.split("; ");
  return (app.hasTimeline ? parts : parts.filter((part) => !part.includes("timeline"))).join("; ");
}

function helpDialog(app: App, sections: number): HTMLDialogElement {
  const shortcuts = SHORTCUTS.map(([keys, meaning]): [string, string] => [keys, meaningOn(app, meaning)]);
  const rows = [[`1 … ${sections}`, "to a section of the page"], ...shortcuts]
    .filter(([, meaning]) => meaning)
    .map(([keys, meaning]) => h("tr", {}, h("th", { text: keys, attrs: { scope: "row" } }), h("td", { text: meaning })));
  const close = h("button", { text: "Close", attrs: { type: "button" } });
  const dialog = h(
    "dialog",
    { id: "help", attrs: { "aria-labelledby": "help-title" } },
    h("h2", { id: "help-title", text: "Keys" }),
    h("table", { class: "plain" }, h("tbody", {}, ...rows)),
    h("p", {
      text: `${app.hasTimeline ? SELECTING : ""}The address keeps the view: copy it to share.`,
    }),
    close,
  );
  close.addEventListener("click", () => dialog.close());
  return dialog;
}
