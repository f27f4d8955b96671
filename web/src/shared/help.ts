// The dialog that lists a page's keys.
import { h } from "./dom";

export type Shortcut = readonly [keys: string, meaning: string];
const SHARE = "The address keeps the view: copy it to share.";

/** Adds the dialog to the page; the button and the page's keys open it. */
export function addHelp(shortcuts: readonly Shortcut[], ...paragraphs: string[]): HTMLDialogElement {
  const rows = shortcuts.map(([keys, meaning]) =>
    h("tr", {}, h("th", { text: keys, attrs: { scope: "row" } }), h("td", { text: meaning })),
  );
  const close = h("button", { text: "Close" });
  const dialog = h(
    "dialog",
    { id: "help", attrs: { "aria-labelledby": "help-title" } },
    h("h2", { id: "help-title", text: "Keys" }),
    h("table", { class: "plain" }, h("tbody", {}, ...rows)),
    ...[...paragraphs, SHARE].map((text) => h("p", { text })),
    close,
  );
  close.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  return dialog;
}

export function showHelp(): void {
  const dialog = document.getElementById("help") as HTMLDialogElement | null;
  if (dialog && !dialog.open) dialog.showModal();
}

export function helpButton(): HTMLButtonElement {
  return h("button", {
    text: "?",
    title: "Keys and help (?)",
    attrs: { "aria-label": "Help" },
    on: { click: showHelp },
  });
}
