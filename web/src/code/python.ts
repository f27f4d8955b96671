// The Python: each line with what is known of it in the margin, and with the suggestions that hang on it.
import { h, replace } from "../shared/dom";
import { formatCount, formatPercent, formatPlural } from "../shared/format";
import type { App } from "./app";
import { fileName, type PythonLine } from "./data";
import type { CodeLine, CodeSource, CodeSuggestion } from "../shared/generated/records";
import { suggestionBody } from "./suggestion";
import { paint, tokensByLine } from "./tokens";

const MOST_MARKS = 22; // characters of marks that the margin shows

export class PythonPane {
  readonly element: HTMLElement;
  private readonly body = h("div", {
    class: "text python",
    attrs: { role: "grid", tabindex: "0", "aria-label": "Python source", "data-kind": "python" },
  });
  private readonly status = h("span", { class: "quiet status" });
  private readonly heading = h("h2");
  private rows: HTMLElement[] = [];
  private hasSamples = false;
  private mostSamples = 1;
  private marked: HTMLElement[] = [];
  private readonly caret = h("span", { class: "caret", attrs: { "aria-hidden": "true" } });

  constructor(private readonly app: App) {
    this.element = h(
      "section",
      { class: "pane", attrs: { "aria-label": "Source" } },
      h("div", { class: "pane-head" }, this.heading, this.status),
      this.body,
    );
    this.body.addEventListener("mouseover", (event) => app.hover(this.idOf(event.target)));
    this.element.addEventListener("mouseleave", () => app.hover(-1));
    this.body.addEventListener("click", (event) => {
      const target = event.target as Element;
      if (target.closest("summary, .hint") || !getSelection()?.isCollapsed) return;
      const id = this.idOf(target);
      if (id >= 0) app.choose(id);
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
  }

  show(): void {
    const { plain, python } = this.app.check;
    this.rows = [];
    this.marked = [];
    this.heading.textContent = this.app.language;
    this.element.setAttribute("aria-label", this.app.language);
    this.body.setAttribute("aria-label", `${this.app.language} source`);
    const most = Math.max(1, ...python.map(({ facts }) => facts?.instructions ?? 0));
    this.hasSamples = python.some(({ facts }) => facts?.sample_percent);
    this.mostSamples = Math.max(0.1, ...python.map(({ facts }) => facts?.sample_percent ?? 0));
    const widest = Math.max(0, ...python.map((line) => shownMarks(line).text.length));
    this.body.style.setProperty("--marks", `${widest}ch`);
    this.body.style.setProperty("--digits", `${String(Math.max(0, ...python.map(({ line }) => line))).length}ch`);
    this.body.style.setProperty("--counts", `${most > 9999 ? 6 : 5}ch`);
    const groups = plain.sources.map((source) => this.group(source, most));
    if (!groups.length) groups.push(h("p", { class: "empty", text: "The source of the kernel could not be read." }));
    replace(this.body, ...groups);
    this.status.textContent = fileName(plain.files[plain.sources[0]?.file ?? 0] ?? "");
    this.status.title = plain.files[plain.sources[0]?.file ?? 0] ?? "";
    this.mark();
  }

  mark(): void {
    for (const row of this.marked) row.classList.remove("is-active", "is-chosen");
    this.marked = [];
    const { active, line, column } = this.app;
    for (const [id, name] of [
      [active, "is-active"],
      [line, "is-chosen"],
    ] as const) {
      const row = this.rows[id];
      if (!row) continue;
      row.classList.add(name);
      this.marked.push(row);
    }
    for (const row of this.body.querySelectorAll('[aria-selected="true"]')) row.setAttribute("aria-selected", "false");
    const chosen = this.rows[line];
    chosen?.setAttribute("aria-selected", "true");
    if (chosen) this.body.setAttribute("aria-activedescendant", chosen.id);
    else this.body.removeAttribute("aria-activedescendant");
    this.underline(active, column);
  }

  /** Brings the chosen line into sight. Only this box scrolls: the page stays where it is. */
  follow(): void {
    const row = this.rows[this.app.line];
    if (!row) return;
    const top = row.offsetTop;
    const { scrollTop, clientHeight } = this.body;
    if (top < scrollTop + 20 || top + row.offsetHeight > scrollTop + clientHeight - 20) this.body.scrollTop = top - clientHeight / 3;
  }

  private underline(id: number, column: number): void {
    const line = this.app.check.python[id];
    this.caret.remove();
    if (!column || !line) return;
    const [word] = /^[\w.]*/.exec(line.text.slice(column - 1)) ?? [""];
    this.caret.style.left = `${column - 1}ch`;
    this.caret.style.width = `${Math.max(1, word.length)}ch`;
    this.rows[id].querySelector(".code")?.append(this.caret);
  }

  private group(source: CodeSource, most: number): HTMLElement {
    const painted = tokensByLine(this.app.check.plain.language === "cuda" ? "cpp" : "python", source.text);
    const { check } = this.app;
    const rows = source.text.flatMap((_, at) => {
      const line = check.python[check.idOf(source.file, source.line + at)];
      const row = this.row(line, most);
      paint(row.querySelector(".code") as HTMLElement, line.text, painted[at]);
      this.rows[line.id] = row;
      const hints = line.suggestions.map((suggestion) => hint(suggestion));
      if (check.plain.failure_place && check.idOf(check.plain.failure_place.file, check.plain.failure_place.line) === line.id)
        hints.push(failed(check.plain.failure));
      return [row, ...hints];
    });
    const isKernel = source === check.plain.sources[0];
    const name = isKernel
      ? null
      : h(
          "div",
          { class: "function", attrs: { role: "row" } },
          h("span", {
            text: `${source.name} · ${fileName(check.plain.files[source.file])}`,
            title: check.plain.files[source.file],
            attrs: { role: "gridcell" },
          }),
        );
    return h("div", { class: "group", attrs: { role: "rowgroup", "aria-label": source.name } }, name, ...rows);
  }

  private row(line: PythonLine, most: number): HTMLElement {
    const { facts } = line;
    const own = facts?.instructions ?? 0;
    const called = facts?.called_instructions ?? 0;
    const count = h("span", {
      class: "count",
      text: own ? formatCount(own) : called ? `+${formatCount(called)}` : "",
      title: countTitle(own, facts?.in_loops ?? 0, called),
      attrs: { role: "gridcell" },
    });
    count.style.setProperty("--share", `${(100 * own) / most}%`);
    const sampled = facts?.sample_percent ?? 0;
    const time = this.hasSamples
      ? h("span", {
          class: "count time",
          text: sampled >= 0.05 ? formatPercent(sampled) : "",
          title: sampled ? `${formatPercent(sampled)} of the kernel's samples; ${waitText(facts)}` : "",
          attrs: { role: "gridcell" },
        })
      : null;
    time?.style.setProperty("--share", `${(100 * sampled) / this.mostSamples}%`);
    const marks = h("span", { class: "marks", attrs: { role: "gridcell" } }, ...shownMarks(line).marks);
    const hue = this.app.hue(line.id);
    const row = h(
      "div",
      {
        class: `row${hue === null ? " is-dim" : " is-linked"}`,
        id: `python-${line.id}`,
        attrs: { role: "row", "aria-selected": "false", "data-line": String(line.id) },
      },
      h("span", { class: "no", text: String(line.line), attrs: { role: "rowheader" } }),
      count,
      time,
      marks,
      h("span", { class: "code", attrs: { role: "gridcell" } }),
    );
    if (hue !== null) row.style.setProperty("--h", String(hue));
    return row;
  }

  private idOf(target: EventTarget | null): number {
    const row = (target as Element).closest<HTMLElement>("[data-line]");
    return row ? Number(row.dataset["line"]) : -1;
  }
  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).matches("summary")) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      event.stopPropagation();
      this.app.step(event.key === "ArrowDown" ? 1 : -1);
    }
  }
}

function countTitle(own: number, inLoops: number, called: number): string {
  if (!own && !called) return "";
  const parts = own
    ? [`${formatPlural(own, "machine instruction")}, ${inLoops ? (inLoops === own ? "all" : formatCount(inLoops)) : "none"} in loops`]
    : [];
  if (called) parts.push(`${formatPlural(called, "instruction")} of what it calls`);
  return parts.join("; ");
}

function waitText(facts: CodeLine | null): string {
  const [first] = facts?.waits ?? [];
  return first ? `most waits for ${first[0].replaceAll("_", " ")}, ${formatPercent(first[1])}` : "";
}

/** The marks that fit, and how wide they are. */
function shownMarks(line: PythonLine): { text: string; marks: HTMLElement[] } {
  const marks: HTMLElement[] = [];
  let text = "";
  const remarks = line.remarks.map(({ text: words }) => words).join("; ");
  for (const mark of [
    ...(line.facts?.marks ?? []),
    ...(remarks ? [{ text: "remark", meaning: `The compiler says: ${remarks}`, is_bad: false }] : []),
  ]) {
    if (text && text.length + mark.text.length > MOST_MARKS) break;
    text += `${text ? "··" : "·"}${mark.text}`;
    marks.push(h("span", { class: `mark${mark.is_bad ? " is-bad" : ""}`, text: mark.text, title: mark.meaning }));
  }
  return { text, marks };
}

function hint(suggestion: CodeSuggestion): HTMLElement {
  const summary = h("summary", {}, h("b", { text: suggestion.code }), ` ${suggestion.title}`);
  return h(
    "div",
    { class: "hint", attrs: { role: "row" } },
    h("div", { attrs: { role: "gridcell" } }, h("details", {}, summary, ...suggestionBody(suggestion))),
  );
}

function failed(text: string): HTMLElement {
  return h("div", { class: "hint is-failure", attrs: { role: "row" } }, h("div", { text, attrs: { role: "gridcell" } }));
}
