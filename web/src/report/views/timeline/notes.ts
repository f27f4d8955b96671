// Notes and bookmarks: a view of the timeline, or an event in it, with a few words. They are in the address, so a link
// carries them to a colleague.
import { h, replace } from "../../../shared/dom";
import type { Note } from "../../state";
import type { Model } from "./model";

const MOST_NOTES = 50;
const MOST_CHARACTERS = 200;

/** Notes the selected event, or what is in view. */
export function addNote(model: Model): void {
  const { store } = model.app;
  const notes = store.get("notes");
  if (notes.length >= MOST_NOTES) return;
  const { viewport, event } = model;
  const note: Note = { from: Math.round(viewport.from), to: Math.round(viewport.to), event: event && { ...event }, text: "" };
  store.jump({ notes: [...notes, note] });
}

/** Where a note stands on the timeline. */
export function timeOf(model: Pick<Model, "timesOf">, { from, to, event }: Note): number {
  return event ? model.timesOf(event)[0] : (from + to) / 2;
}

export function goToNote(model: Model, { from, to, event }: Note): void {
  model.app.store.jump({ view: [from, to], event, moment: null, at: "timeline" });
}

export class NotesBar {
  readonly element = h("div", { class: "tl-notes", attrs: { role: "group", "aria-label": "Notes" } });

  constructor(private readonly model: Model) {
    this.show();
  }

  /** `focus`: the last one was added just now, and waits for its words. */
  show(focus = false): void {
    const notes = this.model.app.store.get("notes");
    this.element.hidden = !notes.length;
    if (this.element.contains(document.activeElement) && this.element.childElementCount === notes.length) return;
    replace(this.element, ...notes.map((note, at) => this.entry(note, at)));
    if (focus) this.element.lastElementChild?.querySelector("input")?.focus({ preventScroll: true });
  }

  private entry(note: Note, at: number): HTMLElement {
    const what = note.event ? this.model.app.scenes[note.event.scene]?.short(note.event.row) : "this view";
    const input = h("input", {
      attrs: {
        "aria-label": `Note ${at + 1}`,
        placeholder: `a note on ${what}`,
        maxlength: String(MOST_CHARACTERS),
        size: String(Math.max(18, note.text.length)),
      },
      on: {
        input: () => this.write(at, { ...note, text: input.value }),
        keydown: (event) => event.key === "Enter" && goToNote(this.model, note),
      },
    });
    input.value = note.text;
    return h(
      "span",
      { class: "tl-note" },
      h("button", {
        text: String(at + 1),
        title: `Go to ${what}`,
        attrs: { "aria-label": `Go to note ${at + 1}` },
        on: { click: () => goToNote(this.model, note) },
      }),
      input,
      h("button", {
        text: "×",
        title: "Remove this note",
        attrs: { "aria-label": `Remove note ${at + 1}` },
        on: { click: () => this.write(at, null) },
      }),
    );
  }

  private write(at: number, note: Note | null): void {
    const { store } = this.model.app;
    const notes = store.get("notes").flatMap((other, place) => (place !== at ? [other] : note ? [note] : []));
    store.set({ notes });
  }
}
