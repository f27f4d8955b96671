// The menu of a track: pin it, hide it, move it. It opens by its button, or as a context menu of the track's name.
import { h } from "../../../shared/dom";
import type { Model, Track } from "./model";

let open: HTMLElement | null = null;

function close(): void {
  // To remove what has the focus blurs it, which would close the menu once more.
  const menu = open;
  open = null;
  menu?.remove();
}

export function menuButton(model: Model, track: Track): HTMLElement {
  const button = h("button", {
    class: "tl-menu-button",
    text: "⋮",
    title: "Pin, hide or move this track",
    attrs: { tabindex: "-1", "aria-label": `Menu of ${track.title}`, "aria-haspopup": "menu" },
    on: { click: () => showMenu(model, track, button) },
  });
  return button;
}

export function showMenu(model: Model, track: Track, at: HTMLElement): void {
  close();
  const pinned = model.isPinned(track);
  const entries: [text: string, act: () => void][] = [
    [pinned ? "Unpin" : "Pin on top", () => model.pin(track, !pinned)],
    ["Hide", () => model.hide(track)],
    ["Move up", () => model.move(track, -1)],
    ["Move down", () => model.move(track, 1)],
  ];
  const buttons = entries.map(([text, act]) =>
    h("button", {
      text,
      attrs: { role: "menuitem" },
      on: {
        click: () => {
          close();
          act();
        },
      },
    }),
  );
  open = h("div", { class: "tl-menu", attrs: { role: "menu", "aria-label": track.title } }, ...buttons);
  const menu = open;
  menu.addEventListener("keydown", (event) => {
    const place = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: place + 1, ArrowUp: place - 1 }[event.key];
    if (event.key === "Escape") {
      close();
      at.focus();
    } else if (to !== undefined) buttons[(to + buttons.length) % buttons.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  menu.addEventListener("focusout", (event) => {
    if (!menu.contains(event.relatedTarget as Node | null) && open === menu) close();
  });
  document.body.append(menu);
  const box = at.getBoundingClientRect();
  menu.style.left = `${Math.min(box.left, innerWidth - menu.offsetWidth - 8)}px`;
  menu.style.top = `${Math.min(box.bottom + 2, innerHeight - menu.offsetHeight - 8)}px`;
  buttons[0].focus({ preventScroll: true });
}
