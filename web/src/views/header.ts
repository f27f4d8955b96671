// The top of the page: what was recorded, the verdict, what the trace cannot tell, search, theme and help.
import type { App, View } from "../app";
import { h, replace } from "../dom";
import { showHelp } from "../keys";

const THEMES = ["", "light", "dark"] as const;
const THEME_NAMES: Record<string, string> = { "": "◐ auto", light: "☀ light", dark: "☾ dark" };

export function applyTheme(theme: string): void {
  if (theme) document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
}

export function mountHeader(host: HTMLElement, app: App): View {
  const { store, header } = app;
  const search = h("input", {
    id: "search",
    attrs: { type: "search", placeholder: "Search  /", "aria-label": "Search kernels, ops, modules and lines" },
    on: { input: () => store.set({ q: search.value }) },
  });
  search.value = store.get("q");
  const theme = h("button", {
    id: "theme",
    title: "Theme: as the system, light or dark",
    attrs: { type: "button" },
    on: { click: () => store.set({ theme: nextTheme(store.get("theme")) }) },
  });
  const help = h("button", { text: "?", title: "Keys and help (?)", attrs: { type: "button", "aria-label": "Help" }, on: { click: showHelp } });
  const scope = h("div", { id: "scope", attrs: { role: "status", "aria-live": "polite" } });
  host.append(
    h("div", { class: "bar" }, h("h1", { text: app.isDiff ? header.title : fileName(header.source) }), h("span", { class: "tools" }, search, theme, help)),
    h("p", { class: "facts" }, ...factLine(app)),
    h("p", { class: "verdict", text: header.facts["verdict"] ?? "" }),
    h("div", { class: "badges", attrs: { role: "list", "aria-label": "What this trace can and cannot tell" } }, ...badges(app)),
  );
  // Beside the header, not in it: it stays in sight as long as the page scrolls.
  host.after(scope);
  const show = (): void => {
    theme.textContent = THEME_NAMES[store.get("theme")] ?? "";
    theme.setAttribute("aria-label", `Theme: ${store.get("theme") || "as the system"}`);
    showScope(scope, app);
  };
  show();
  return {
    update(changed) {
      if (changed.has("theme") || changed.has("steps") || changed.has("range")) show();
      if (changed.has("q") && search.value !== store.get("q")) search.value = store.get("q");
    },
  };
}

function showScope(host: HTMLElement, app: App): void {
  host.hidden = !app.scene || app.selection.whole;
  if (host.hidden) return replace(host);
  const clear = h("button", {
    text: "Show everything",
    attrs: { type: "button" },
    on: { click: () => app.store.set({ steps: "", range: "" }) },
  });
  replace(host, h("span", { text: `Showing ${app.selection.text}.` }), clear);
}

function nextTheme(theme: string): string {
  return THEMES[(THEMES.indexOf(theme as (typeof THEMES)[number]) + 1) % THEMES.length];
}

function fileName(path: string): string {
  return path.split("/").pop() ?? path;
}

function factLine(app: App): HTMLElement[] {
  const { facts } = app.header;
  const shown = app.isDiff ? ["A", "B", "times", "matched", "noise", "work", "mind"] : ["device", "format", "rank", "events in file"];
  return shown
    .filter((name) => facts[name])
    .map((name) => h("span", {}, h("span", { class: "quiet", text: `${name} ` }), facts[name]));
}

/** One badge per note on the trace, warnings first; a trace that lacks nothing gets one too. */
function badges(app: App): HTMLElement[] {
  const notes = app.hasTable("quality") ? app.wholeTable("quality") : null;
  if (!notes) return [];
  const all = Array.from({ length: notes.rows }, (_, row) =>
    badge(notes.text("severity", row), notes.text("code", row), notes.text("message", row)),
  );
  return all.length ? all : [badge("good", "complete", "stacks, shapes, steps and launches are all there")];
}

function badge(severity: string, code: string, message: string): HTMLElement {
  const mark = severity === "warning" ? "⚠" : severity === "good" ? "✓" : "ⓘ";
  return h("span", { class: `badge ${severity}`, title: message, attrs: { role: "listitem" } }, `${mark} `, h("b", { text: code.replaceAll("_", " ") }), ` ${message}`);
}
