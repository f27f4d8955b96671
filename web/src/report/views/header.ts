// The top of the page: what was recorded, the verdict, the step in numbers, the largest gains, what the trace lacks.
import type { App, View } from "../app";
import { h, replace } from "../../shared/dom";
import { breakdown } from "./breakdown";
import { tiles } from "./tiles";
import { topFindings } from "./top_findings";

export function mountHeader(host: HTMLElement, app: App): View {
  const { header } = app;
  const scope = h("div", { id: "scope", attrs: { role: "status", "aria-live": "polite" } });
  host.append(
    h(
      "div",
      { class: app.isDiff ? "bar stacked" : "bar" },
      h("h1", { text: app.isDiff ? header.title : fileName(header.source) }),
      h("p", { class: "facts" }, ...factLine(app)),
    ),
    h("p", { class: "verdict", text: header.verdict }),
    tiles(app) ?? "",
    breakdown(app) ?? "",
    topFindings(app) ?? "",
    notes(app) ?? "",
  );
  // Beside the header, not in it: it stays in sight as long as the page scrolls.
  document.getElementById("app")?.append(scope);
  showScope(scope, app);
  return {
    update(changed) {
      if (changed.has("steps") || changed.has("range")) showScope(scope, app);
    },
  };
}

/** What the trace lacks: one line, which a press opens. */
function notes(app: App): HTMLElement | null {
  const shown = badges(app);
  if (!shown.length) return null;
  const list = h("div", { class: "badges", attrs: { role: "list", "aria-label": "What this trace can and cannot show" } }, ...shown);
  const toggle = h("button", {
    class: "link",
    text: `all ${shown.length} notes`,
    attrs: { "aria-expanded": "false" },
    on: { click: () => toggle.setAttribute("aria-expanded", String(list.classList.toggle("open"))) },
  });
  return h("div", { class: "notes" }, list, shown.length > 1 && toggle);
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

function fileName(path: string): string {
  return path.split("/").pop() ?? path;
}

function factLine(app: App): HTMLElement[] {
  const { facts, mode } = app.header;
  const shown = app.isDiff
    ? ["A", "B", "step", "times", "matched", "noise", "work", "caution"]
    : mode === "paths" || mode === "job"
      ? Object.keys(facts).filter((name) => name !== "content hash")
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
