// What the view shows and how it is chosen; a report and a comparison each bring their own.
import type { App } from "../../app";
import { h } from "../../../shared/dom";
import type { Key } from "../../state";
import type { Look } from "./facts";

export interface Source {
  controls: HTMLElement[];
  /** The choices that change the tree. */
  keys: Key[];
  /** Marks the buttons of what is chosen. */
  sync(): void;
  /** Whether making the picture may take long enough to be felt. */
  isSlow(): boolean;
  make(): Picture;
  title(): string;
  /** Beginning of the names of saved files. */
  fileStem(): string;
  folded(): string;
  speedscope(): string;
}

export interface Picture {
  look: Look | null;
  /** What the picture shows, or why there is none. */
  text: string;
  /** A way out where there is none. */
  button?: HTMLElement;
}

/** What saved files are called after. */
export function stemOf(app: App): string {
  return app.header.source.replace(/^.*\//, "").replace(/(\.json|\.csv|\.gz|\.zip)+$/, "");
}

export function empty(text: string, button?: HTMLElement): Picture {
  return button ? { look: null, text, button } : { look: null, text };
}

/** A `choice` with its name before it. */
export function labelled(text: string, group: HTMLElement): HTMLElement {
  return h("span", { class: "flame-control" }, h("span", { class: "quiet", text }), group);
}

/** Switches off the choices that the trace has nothing for, and says why. */
export function disable(group: HTMLElement, reasons: Record<string, string>): void {
  for (const button of group.querySelectorAll("button")) {
    const reason = reasons[button.dataset["value"] ?? ""];
    button.disabled = Boolean(reason);
    if (reason) button.title = reason;
  }
}
