// What to change: one card per finding, the largest gain first; a click leads to where it is.
import type { App, View } from "../app";
import { h } from "../../shared/dom";
import { formatCount, formatMs } from "../../shared/format";
import { evidenceLinks, findingLinks, type Link } from "../links";
import { whatIfPanel } from "./what_if";

export function mountFindings(host: HTMLElement, app: App): View {
  const findings = app.wholeTable("findings");
  const panel = whatIfPanel(app);
  if (panel) host.append(panel.element);
  if (!findings.rows) host.append(h("p", { class: "empty", text: nothingFound(app) }));
  else {
    const cards = Array.from({ length: findings.rows }, (_, row) => card(app, row));
    const rest = cards.slice(SHOWN);
    const more = rest.length
      ? h(
          "details",
          { class: "more" },
          h("summary", { text: `${rest.length} more, with smaller gains` }),
          h("div", { class: "cards" }, ...rest),
        )
      : null;
    host.append(h("div", { class: "cards" }, ...cards.slice(0, SHOWN)));
    if (more) host.append(more);
    host.append(h("p", { class: "quiet", text: [app.header.gainsBase, app.scene ? WHOLE : "", NOTE].filter(Boolean).join(" ") }));
  }
  return panel ?? { update: () => undefined };
}

const SHOWN = 6;
const WHOLE = "Findings are about the whole trace, whatever is selected below.";
const NOTE = "Gains overlap: they do not add up. ≤ marks an upper bound.";

function nothingFound(app: App): string {
  if (!app.scene?.hasGpu) return "No GPU work in this trace, so there is no advice.";
  const quality = app.wholeTable("quality");
  const missing = Object.keys(UNCHECKED)
    .filter((code) => quality.find("code", code) >= 0)
    .map((code) => UNCHECKED[code]);
  const unknown = missing.length ? ` Not everything could be checked: ${missing.join("; ")}.` : "";
  return `No finding: no change that could be checked would save a noticeable share of the time.${unknown}`;
}

const UNCHECKED: Record<string, string> = {
  // What a trace lacks: which checks that rules out.
  no_host: "without host events, the reason why the GPU waits is unknown",
  no_shapes: "without shapes there are no costs, so slow matrix products, casts and layouts are not detected",
  unknown_gpu: "without the GPU's limits nothing can be compared with them",
  unlinked_kernels: "work without a recorded launch belongs to no op or line",
  graph_mode: "inside graphs no ops are recorded",
};

function card(app: App, row: number): HTMLElement {
  const findings = app.wholeTable("findings");
  const text = (column: string): string => findings.text(column, row);
  const rows = evidenceRows(app, row);
  const links = findingLinks(app, row);
  const [first] = links;
  const title = h("button", {
    class: "title",
    text: text("title"),
    title: first ? `Go to: ${first.text}` : "",
    on: { click: () => first && app.go(first.target) },
  });
  const explained = app.header.explanations[text("code")];
  return h(
    "article",
    { class: "card", attrs: { "data-code": text("code") } },
    h("div", { class: "head" }, h("span", { class: "code", text: text("code") }), gain(app, row)),
    h("h3", {}, title),
    text("place") ? h("p", { class: "place", text: text("place") }) : null,
    h("p", { text: text("evidence") }),
    h("p", { class: "advice" }, h("b", { text: "Do: " }), text("advice")),
    text("proof") ? h("p", {}, h("b", { text: "Proof: " }), text("proof")) : null,
    links.length ? h("p", { class: "links" }, ...linkButtons(app, links)) : null,
    evidenceList(app, rows),
    explained ? h("details", {}, h("summary", { text: "What this means" }), h("p", { text: explained })) : null,
  );
}

/** The gain in the Answer's words: an interval, or a bound. */
export function gain(app: App, row: number): HTMLElement | null {
  const text = app.header.gains[row];
  if (!text) return null;
  const percent = Math.min(100, app.wholeTable("findings").number("gain_percent", row));
  const meter = percent > 0 && h("span", { class: "meter", attrs: { "aria-hidden": "true", style: `--share:${percent}%` } });
  return h("span", { class: "gain", title: text.startsWith("≤") ? "at most this much" : "estimated gain, and between what" }, text, meter);
}

/** Gains and times of evidence are per step where steps are marked. */
function perStep(app: App): string {
  return app.hasSteps ? " per step" : "";
}

interface EvidenceRow {
  row: number;
  links: Link[];
}

function evidenceRows(app: App, finding: number): EvidenceRow[] {
  const evidence = app.wholeTable("evidence");
  const number = evidence.column("finding").values;
  return Array.from({ length: evidence.rows }, (_, row) => row)
    .filter((row) => number[row] === finding + 1)
    .map((row) => ({ row, links: evidenceLinks(app, row) }));
}

function evidenceList(app: App, rows: EvidenceRow[]): HTMLElement | null {
  if (!rows.length) return null;
  const items = rows.map((item) => evidenceItem(app, item));
  return h("details", { class: "evidence" }, h("summary", { text: `Evidence (${rows.length})` }), h("ul", {}, ...items));
}

function evidenceItem(app: App, { row, links }: EvidenceRow): HTMLElement {
  const evidence = app.wholeTable("evidence");
  const time = evidence.number("time_ms", row);
  const count = evidence.number("count", row);
  const timed = time ? `${formatMs(time)}${perStep(app)}` : "";
  const figures = [count ? `${formatCount(count)} × in the ${app.job ? "job" : "trace"}` : "", timed, evidence.text("detail", row)];
  const text = ` ${figures.filter(Boolean).join(" · ")} `;
  return h("li", {}, h("code", { text: evidence.text("what", row) }), text, ...linkButtons(app, links));
}

function linkButtons(app: App, links: Link[]): HTMLElement[] {
  return links.map(({ text, target }) => h("button", { class: "link", text, on: { click: () => app.go(target) } }));
}
