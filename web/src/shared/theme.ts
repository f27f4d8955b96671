// Light, dark, or as the system: one button and one attribute for every page.
import { oneOf } from "./codecs";
import { h } from "./dom";

const THEMES = ["", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const NAMES: Record<Theme, string> = { "": "◐ auto", light: "☀ light", dark: "☾ dark" };

/** "": as the system says. */
export const theme = oneOf<Theme>(THEMES);

interface ThemeStore {
  get(key: "theme"): Theme;
  set(values: { theme: Theme }): void;
  listen(listener: (changed: ReadonlySet<string>) => void): void;
}

export function themeButton(store: ThemeStore): HTMLButtonElement {
  const button = h("button", {
    id: "theme",
    title: "Theme: as the system, light or dark",
    on: { click: () => store.set({ theme: THEMES[(THEMES.indexOf(store.get("theme")) + 1) % THEMES.length] }) },
  });
  const show = (): void => {
    button.textContent = NAMES[store.get("theme")];
    button.setAttribute("aria-label", `Theme: ${store.get("theme") || "as the system"}`);
  };
  store.listen((changed) => changed.has("theme") && show());
  show();
  return button;
}

/** Applies the theme now and after each change, then notifies; also where the system's changes. Listen before the views do. */
export function followTheme(store: ThemeStore, changed: () => void, systemChanged: () => void): void {
  const apply = (): void => {
    const { dataset } = document.documentElement;
    // "chosen" is the theme that the page was written with.
    const shown = store.get("theme") || dataset["chosen"];
    if (shown) dataset["theme"] = shown;
    else delete dataset["theme"];
  };
  apply();
  store.listen((keys) => {
    if (!keys.has("theme")) return;
    apply();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    changed();
    systemChanged();
  });
}
