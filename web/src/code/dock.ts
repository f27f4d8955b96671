// What is known of the chosen line; without one, of the whole kernel.
import { h, replace } from "../shared/dom";
import { formatCount, formatPercent, formatPlural } from "../shared/format";
import { title, type App, type View } from "./app";
import type { PythonLine } from "./data";
import type { CodeRemark, CodeSuggestion } from "../shared/generated/records";
import { suggestionBody } from "./suggestion";

export function mountDock(host: HTMLElement, app: App): View {
  const heading = h("h2");
  const body = h("div", { class: "dock-body" });
  const fold = h("button", {
    class: "small",
    attrs: { "aria-controls": "dock-body" },
    on: { click: () => app.store.set({ facts: !app.store.get("facts") }) },
  });
  const clear = h("button", {
    class: "small",
    text: "Whole kernel",
    title: "No line (Esc)",
    on: { click: () => app.choose(-1) },
  });
  body.id = "dock-body";
  host.append(h("div", { class: "pane-head" }, heading, clear, fold), body);

  const show = (): void => {
    const isOpen = !app.store.get("facts");
    const line = app.check.python[app.line];
    heading.textContent = line ? `Line ${line.line}` : "Whole kernel";
    clear.hidden = !line;
    fold.textContent = isOpen ? "▾ Fold" : "▸ Facts";
    fold.setAttribute("aria-expanded", String(isOpen));
    body.hidden = !isOpen;
    const parts = line ? lineParts(app, line) : kernelParts(app);
    host.hidden = !parts.length;
    if (isOpen) replace(body, ...parts);
    body.scrollTop = 0;
  };
  show();
  return {
    update(changed) {
      if (["line", "check", "facts", "raw"].some((key) => changed.has(key as "line"))) show();
    },
  };
}

function lineParts(app: App, line: PythonLine): HTMLElement[] {
  const { facts } = line;
  const parts = [h("code", { class: "statement", text: line.text.trim() || "(blank)" })];
  const columns: HTMLElement[] = [];
  const counts = app.check.kinds.map((kind) => {
    const rows = app.listing(kind)?.rowsOf(line.id).length ?? 0;
    return h("span", {}, h("span", { class: "quiet", text: `${title(kind)} ` }), rows ? formatPlural(rows, "line") : "nothing");
  });
  if (counts.length)
    columns.push(
      box(
        "Becomes",
        h("p", { class: "facts" }, ...counts),
        facts && mix(facts.classes, facts.instructions, facts.in_loops),
        calledText(facts?.called_instructions ?? 0),
      ),
    );
  if (facts?.details.length) columns.push(box("Facts", list(facts.details)));
  if (facts?.sample_percent)
    columns.push(box("Measured", h("p", { text: `${formatPercent(facts.sample_percent)} of the kernel's samples` }), waiting(facts.waits)));
  if (line.suggestions.length) columns.push(box("Suggestions", ...line.suggestions.map(suggested)));
  if (line.remarks.length) columns.push(box("The compiler says", list(line.remarks.map(remarkText))));
  return [...parts, h("div", { class: "columns" }, ...columns)];
}

function kernelParts(app: App): HTMLElement[] {
  const { plain } = app.check;
  const columns: HTMLElement[] = [];
  if (plain.suggestions.length) columns.push(box("Suggestions", ...plain.suggestions.map((suggestion) => suggestedAt(app, suggestion))));
  else if (!plain.failure) columns.push(box("Suggestions", h("p", { class: "quiet", text: "Nothing to suggest." })));
  const total = new Map<string, number>();
  for (const { classes } of plain.lines) for (const [name, count] of classes) total.set(name, (total.get(name) ?? 0) + count);
  const instructions = plain.lines.reduce((sum, line) => sum + line.instructions, 0);
  const inLoops = plain.lines.reduce((sum, line) => sum + line.in_loops, 0);
  const nowhere = plain.lines.filter(({ place }) => !place.line).reduce((sum, line) => sum + line.instructions, 0);
  const mixed = mix([...total], instructions, inLoops);
  if (mixed)
    columns.push(
      box(
        "Machine instructions",
        mixed,
        nowhere ? h("p", { class: "quiet", text: `${formatCount(nowhere)} of them come from no line of the source.` }) : null,
      ),
    );
  const loose = plain.remarks.filter(({ place }) => !place || app.check.idOf(place.file, place.line) < 0);
  if (loose.length) columns.push(box("The compiler says", list(loose.map(remarkText))));
  const notes = [...plain.notes, ...app.page.header.notes];
  if (notes.length) columns.push(box("Notes", list(notes)));
  return columns.length ? [h("div", { class: "columns" }, ...columns)] : [];
}

function box(name: string, ...parts: (HTMLElement | null | undefined)[]): HTMLElement {
  return h("div", { class: "box" }, h("h3", { text: name }), ...parts);
}
function list(texts: string[]): HTMLElement {
  return h("ul", {}, ...texts.map((text) => h("li", { text })));
}
function calledText(count: number): HTMLElement | null {
  return count ? h("p", { class: "quiet", text: `and ${formatPlural(count, "instruction")} of what it calls` }) : null;
}
function waiting(waits: [string, number][]): HTMLElement | null {
  if (!waits.length) return null;
  return h(
    "p",
    {},
    "Warps waited for ",
    waits.map(([reason, percent]) => `${reason.replaceAll("_", " ")} ${formatPercent(percent)}`).join(", "),
    ".",
  );
}
function remarkText({ text, notes, count }: CodeRemark): string {
  return `${text}${count > 1 ? ` (${count} times)` : ""}${notes.length ? ` — ${notes.join("; ")}` : ""}`;
}
function suggested(suggestion: CodeSuggestion): HTMLElement {
  return h(
    "div",
    { class: "suggested" },
    h("p", {}, h("b", { text: suggestion.code }), ` ${suggestion.title}`),
    ...suggestionBody(suggestion),
  );
}

function suggestedAt(app: App, suggestion: CodeSuggestion): HTMLElement {
  const { place } = suggestion;
  const id = place ? app.check.idOf(place.file, place.line) : -1;
  const where =
    place && id < 0
      ? app.placeText({ ...place, column: 0 })
      : place
        ? h("button", {
            class: "link",
            text: app.placeText({ ...place, column: 0 }),
            on: { click: () => app.choose(id) },
          })
        : null;
  return h(
    "details",
    { class: "suggested" },
    h("summary", {}, h("b", { text: suggestion.code }), ` ${suggestion.title} `, where),
    ...suggestionBody(suggestion),
  );
}

/** Classes of instructions as bars. */
function mix(classes: [string, number][], total: number, inLoops: number): HTMLElement | null {
  if (!total) return null;
  const most = Math.max(...classes.map(([, count]) => count));
  const rows = [...classes]
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => {
      const bar = h("span", { class: "bar-of" });
      bar.style.width = `${(100 * count) / most}%`;
      return h(
        "tr",
        {},
        h("th", { text: name.replaceAll("_", " "), attrs: { scope: "row" } }),
        h("td", { class: "number", text: formatCount(count) }),
        h("td", { class: "bars", attrs: { "aria-hidden": "true" } }, bar),
      );
    });
  const text = `${formatPlural(total, "machine instruction")}, ${inLoops === total ? "all" : formatCount(inLoops)} in loops`;
  return h("div", {}, h("p", { text }), h("table", { class: "mix" }, h("tbody", {}, ...rows)));
}
