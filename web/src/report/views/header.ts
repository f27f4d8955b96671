// The top of the page: what was recorded, the verdict, what the trace cannot show, search, theme and help.
import type { App, View } from "../app";
import { h, replace } from "../../shared/dom";
import { formatPlural } from "../../shared/format";
import { helpButton } from "../../shared/help";
import { themeButton } from "../../shared/theme";
import { tiles } from "./tiles";
import { matches } from "./timeline/search";

export function mountHeader(host: HTMLElement, app: App): View {
  const { store, header } = app;
  const search = h("input", {
    id: "search",
    attrs: { type: "search", placeholder: "Search  /", "aria-label": "Search kernels, ops, modules and lines" },
    on: {
      input: () => store.set({ q: search.value }),
      keydown: (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        if (!app.hasTimeline) return toTree(app);
        // The timeline listens for n and N on the page; from here Enter means the same.
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: event.shiftKey ? "N" : "n", bubbles: true }));
      },
    },
  });
  search.value = store.get("q");
  const matchCount = h("span", { id: "found", class: "quiet", attrs: { role: "status", "aria-live": "polite" } });
  const scope = h("div", { id: "scope", attrs: { role: "status", "aria-live": "polite" } });
  host.append(
    h(
      "div",
      { class: "bar" },
      h("h1", { text: app.isDiff ? header.title : fileName(header.source) }),
      h("span", { class: "tools" }, ...(app.job ? [] : [matchCount, search]), themeButton(store), helpButton()),
    ),
    h("p", { class: "facts" }, ...factLine(app)),
    h("p", { class: "verdict", text: header.facts["verdict"] ?? "" }),
    tiles(app) ?? "",
    h("div", { class: "badges", attrs: { role: "list", "aria-label": "What this trace can and cannot show" } }, ...badges(app)),
  );
  // Beside the header, not in it: it stays in sight as long as the page scrolls.
  document.getElementById("app")?.append(scope);
  const show = (): void => {
    showScope(scope, app);
    matchCount.textContent = foundText(app);
  };
  show();
  return {
    update(changed) {
      if (changed.has("steps") || changed.has("range")) show();
      if (changed.has("q")) matchCount.textContent = foundText(app);
      if (changed.has("q") && search.value !== store.get("q")) search.value = store.get("q");
    },
  };
}

function showScope(host: HTMLElement, app: App): void {
  host.hidden = !app.scene || app.selection.whole;
  if (host.hidden) return replace(host);
  const zoom = h("button", {
    text: "Zoom to it",
    title: "Show this time on the timeline",
    on: {
      click: () => {
        const { windows } = app.selection;
        app.store.jump({
          view: [Math.min(...windows.map(([from]) => from)), Math.max(...windows.map(([, to]) => to))],
          at: "timeline",
        });
        app.reveal("timeline");
      },
    },
  });
  const clear = h("button", {
    text: "Show everything",
    on: { click: () => app.store.set({ steps: [], range: null }) },
  });
  replace(host, h("span", { text: `Below, everything except the findings describes ${app.selection.text}.` }), zoom, clear);
}

/** How many events match the search, beside the box: the matches themselves may be out of sight. */
function foundText(app: App): string {
  const wanted = app.store.get("q").trim().toLowerCase();
  if (!wanted) return "";
  if (!app.hasTimeline) return "Enter: to the call tree";
  let count = 0;
  for (const scene of app.scenes) {
    const rows = matches(scene, scene.labelsWith(wanted))[Symbol.iterator]();
    while (!rows.next().done) count++;
  }
  return count ? `${formatPlural(count, "event")}, Enter: next` : "no event matches";
}

function toTree(app: App): void {
  app.store.jump({ at: "flame" });
  app.reveal("flame");
}

function fileName(path: string): string {
  return path.split("/").pop() ?? path;
}

function factLine(app: App): HTMLElement[] {
  const { facts, mode } = app.header;
  const shown = app.isDiff
    ? ["A", "B", "times", "matched", "noise", "work", "caution"]
    : mode === "paths" || mode === "job"
      ? Object.keys(facts).filter((name) => !["verdict", "content hash"].includes(name))
      : ["device", "format", "rank", "records in file"];
  return shown.filter((name) => facts[name]).map((name) => h("span", {}, h("span", { class: "quiet", text: `${name} ` }), facts[name]));
}

/** One badge per note on the trace, warnings first; a trace that lacks nothing gets one too. */
function badges(app: App): HTMLElement[] {
  if (app.isDiff) {
    const { facts } = app.header;
    return ["A", "B"].filter((side) => facts[`quality ${side}`]).map((side) => badge("warning", side, facts[`quality ${side}`]));
  }
  if (!app.hasTable("quality")) return [];
  const notes = app.wholeTable("quality");
  const all = Array.from({ length: notes.rows }, (_, row) =>
    badge(notes.text("severity", row), notes.text("code", row), notes.text("message", row)),
  );
  return all.length || !app.scene ? all : [badge("good", "complete", "stacks, shapes, steps and launches are all there")];
}

function badge(severity: string, code: string, message: string): HTMLElement {
  const mark = severity === "warning" ? "⚠" : severity === "good" ? "✓" : "·";
  return h(
    "span",
    { class: `badge ${severity}`, title: message, attrs: { role: "listitem" } },
    `${mark} `,
    h("b", { text: code.replaceAll("_", " ") }),
    ` ${message}`,
  );
}
