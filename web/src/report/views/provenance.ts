// The end of the page: version, command, file, what was left out, and what every word and number means.
import type { App, View } from "../app";
import { h } from "../../shared/dom";
import { formatCount, formatNs } from "../../shared/format";

declare const LICENCES: string;

export function mountProvenance(host: HTMLElement, app: App): View {
  host.append(factsTable(app), ...leftOut(app), ...definitions(app), columns(app));
  return { update: () => undefined };
}

function factsTable(app: App): HTMLElement {
  const { header } = app;
  const facts: Record<string, string> = {
    "made by": `Warplens ${header.warplens}`,
    command: header.command || "warplens.report() from Python",
    source: header.source,
    ...header.facts,
    "page data": `${header.format} version ${header.version}`,
  };
  const rows = Object.entries(facts).map(([name, value]) =>
    h("tr", {}, h("th", { text: name, attrs: { scope: "row" } }), h("td", { text: value })),
  );
  return h("table", { class: "plain" }, h("tbody", {}, ...rows));
}

/** Nothing is dropped silently: what the page does not hold is said here. */
function leftOut(app: App): HTMLElement[] {
  return app.scenes.map((scene) => {
    const { events, shorterThanNs } = scene.data.header.leftOut;
    const text = events
      ? `${scene.label}: ${formatCount(events)} host events shorter than ${formatNs(shorterThanNs)} are not drawn, so that the page stays fast; all GPU events and everything they hang under are here. Tables of the whole trace count every event; those of a selection count the host calls that are here.`
      : `${scene.label}: all ${formatCount(scene.timedCount)} timed events that were read are on this page; nothing was left out of it.`;
    return h("p", { class: events ? "warning" : "", text });
  });
}

function definitions(app: App): HTMLElement[] {
  return Object.entries(app.header.definitions).map(([subject, entries]) =>
    h(
      "details",
      {},
      h("summary", { text: `What the ${subject} mean` }),
      h("dl", {}, ...Object.entries(entries).flatMap(([name, meaning]) => [h("dt", { text: name }), h("dd", { text: meaning })])),
    ),
  );
}

function columns(app: App): HTMLElement {
  const parts = app.tableNames.map((name) => {
    const table = app.wholeTable(name);
    const entries = table.columns.flatMap((column) => [
      h("dt", { text: column.name }),
      h("dd", { text: column.unit ? `${column.meaning} [${column.unit}]` : column.meaning }),
    ]);
    return h("details", {}, h("summary", { text: `${name}: ${table.meaning}` }), h("dl", {}, ...entries));
  });
  return h(
    "details",
    {},
    h("summary", { text: "What every column of every table means" }),
    ...parts,
    h("pre", { class: "licences", text: LICENCES }),
  );
}
