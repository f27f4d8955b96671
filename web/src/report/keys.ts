// Keys that work everywhere on the page: / searches, ? explains, Escape takes back.
import type { App } from "./app";
import { addHelp, type Shortcut } from "../shared/help";

/** What a key does everywhere, and what it does on the timeline, where there is one. */
type Meaning = { page?: string; timeline?: string; job?: string };
const SHORTCUTS: [keys: string, meaning: Meaning][] = [
  ["/", { page: "search kernels, ops, modules and lines; Enter: next match", job: "choose ranks of the timeline" }],
  ["n  N", { timeline: "next, previous match on the timeline" }],
  ["?", { page: "this help" }],
  ["Esc", { page: "close help, clear the search, then the selection" }],
  ["Tab", { page: "to the next control; charts take the keys below once they have the focus" }],
  ["W S  or  + −", { timeline: "timeline: zoom in, out", job: "timeline: zoom in, out" }],
  ["A D  or  ← →", { timeline: "timeline: move left, right", job: "timeline: move left, right" }],
  [
    "Home End",
    { timeline: "timeline: to the beginning, the end", job: "timeline: to the beginning, the end", page: "tables: first, last row" },
  ],
  [
    "↑ ↓",
    {
      timeline: "timeline: scroll the lanes",
      job: "timeline: scroll the ranks",
      page: "tables: move the row; flame graph: caller, callee",
    },
  ],
  ["[ ]", { timeline: "timeline: previous, next event of the row", job: "timeline: previous, next call of the rank" }],
  ["{ }", { timeline: "timeline: from a kernel to its launch and back", job: "timeline: the same collective on the rank above, below" }],
  [
    "F",
    { timeline: "timeline: fit the selected time, then the event, then everything", job: "timeline: fit the collective, then everything" },
  ],
  ["M", { timeline: "timeline: select the time that the event takes" }],
  ["P", { timeline: "timeline: show or hide the critical path" }],
  ["B", { timeline: "timeline: bookmark the event, or what is in view, with a note; the address keeps it" }],
  ["Alt+↑ ↓", { timeline: "timeline, on a track's name: move the track; the menu key pins or hides it" }],
  ["Enter", { timeline: "timeline: details of the event; tables: show the row on the timeline", page: "flame graph: zoom in" }],
  ["Backspace", { page: "flame graph: zoom out; its + and − widen and narrow around the frame" }],
  [
    "Ctrl+wheel",
    {
      timeline: "timeline: zoom at the pointer; over its ruler the wheel alone does",
      job: "timeline: zoom at the pointer; over its ruler the wheel alone does",
    },
  ],
  ["Shift+wheel", { timeline: "timeline: move left, right", job: "timeline: move left, right" }],
  ["Shift+drag", { timeline: "timeline: select a range of time (or drag on the ruler; click a step there to select it)" }],
];

const SELECTING =
  "Drag on the timeline to move, drag with Shift (or on the ruler) to select a range; click a step to describe it alone. Every section then describes the selection.";

export function installKeys(app: App, sections: string[]): void {
  const dialog = addHelp(shortcutsOf(app, sections.length), ...(app.hasTimeline ? [SELECTING] : []));
  document.addEventListener("keydown", (event) => {
    // The open help takes the keys itself: Escape closes it, and no more.
    if (dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape") back(app, event.target);
    else if (typing) return;
    else if (event.key === "/") {
      event.preventDefault();
      (document.getElementById("search") as HTMLInputElement | null)?.focus({ preventScroll: !app.job });
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
  if (target instanceof HTMLTextAreaElement) return target.blur();
  if (target instanceof HTMLInputElement && !target.value) target.blur();
  if (store.get("q")) store.set({ q: "" });
  else if (store.get("event") || store.get("moment")) store.set({ event: null, moment: null });
  else if (store.get("call") !== null) store.set({ call: null });
  else store.set({ range: null, steps: [] });
}

/** The keys that do something on this page: without a timeline nothing leads there. */
function shortcutsOf(app: App, sections: number): Shortcut[] {
  const meaningOf = ({ timeline, job, page }: Meaning): string =>
    [app.hasTimeline && timeline, app.job && job, !(app.job && job) && page].filter(Boolean).join("; ");
  const shortcuts = SHORTCUTS.map(([keys, meaning]): Shortcut => [keys, meaningOf(meaning)]);
  return [[`1 … ${sections}`, "to a section of the page"], ...shortcuts.filter(([, meaning]) => meaning)];
}
