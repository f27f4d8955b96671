// The three largest gains, at the head of the page; a click leads to what each names.
import type { App } from "../app";
import { h } from "../../shared/dom";
import { findingLinks } from "../links";
import { gain } from "./findings";

const SHOWN = 3;

export function topFindings(app: App): HTMLElement | null {
  if (!app.hasTable("findings")) return null;
  const findings = app.wholeTable("findings");
  if (!findings.rows) return null;
  const rows = Array.from({ length: Math.min(SHOWN, findings.rows) }, (_, row) => row);
  return h(
    "div",
    { class: "top-findings", attrs: { role: "group", "aria-label": "Largest gains" } },
    ...rows.map((row) => entry(app, row)),
  );
}

function entry(app: App, row: number): HTMLElement {
  const findings = app.wholeTable("findings");
  const [first] = findingLinks(app, row);
  const title = findings.text("title", row);
  const todo = h("button", {
    class: "link",
    text: "what to do",
    title: findings.text("advice", row),
    on: { click: () => toCard(app, row) },
  });
  return h(
    "div",
    { class: "top-finding" },
    h("div", { class: "head" }, h("span", {}, h("span", { class: "code", text: findings.text("code", row) }), todo), gain(app, row)),
    h("button", {
      class: "title",
      text: title,
      title: `${title}\n${findings.text("advice", row)}${first ? `\nClick: ${first.text}` : ""}`,
      on: { click: () => (first ? app.go(first.target) : toCard(app, row)) },
    }),
  );
}

function toCard(app: App, row: number): void {
  app.store.jump({ at: "findings" });
  app.reveal("findings");
  document.querySelectorAll("#findings .card")[row]?.scrollIntoView({ block: "center" });
}
