// What stands above a table's rows: its meaning and notes, the filter, how many rows match, and the ways out of the page.
import type { App } from "../../app";
import type { Table } from "../../data/table";
import { h, replace } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import { FILTER_HELP, quoted } from "./filter";

const FILTER_AFTER_MS = 150;

export class About {
  readonly element = h("div", { class: "tv-about" });

  constructor(private readonly app: App) {}

  show(table: Table, unknown: string): void {
    const { app } = this;
    const partial = app.scene !== null && !app.selection.whole;
    const scope = !partial
      ? null
      : table.followsSelection
        ? h("p", { class: "tv-scope", text: `Describes ${app.selection.text}.` })
        : h("p", { class: "tv-scope warning", text: "Whole trace: this table does not follow the selection." });
    replace(
      this.element,
      h("p", {}, h("strong", { text: table.name }), `: ${table.meaning}`),
      unknown ? h("p", { class: "warning", text: `There is no table ${unknown} in this report.` }) : null,
      scope,
      ...table.notes.map((note) => h("p", { class: "quiet", text: note })),
    );
  }
}

export interface BarHandlers {
  copy(): void;
  save(): void;
}

export class Bar {
  readonly element = h("div", { class: "tv-bar" });
  private readonly input: HTMLInputElement;
  private readonly count = h("span", { class: "tv-shown", attrs: { role: "status" } });
  private readonly matchCount = h("span", { class: "tv-found" });
  private readonly problem = h("p", { class: "tv-problem warning", attrs: { role: "alert" } });
  private readonly said = h("span", { class: "tv-said", attrs: { "aria-live": "polite" } });
  private timer = 0;
  private fading = 0;

  constructor(
    private readonly app: App,
    handlers: BarHandlers,
  ) {
    const help = h("p", { class: "quiet tv-filter-help", id: "tv-filter-help", text: FILTER_HELP });
    help.hidden = true;
    this.input = h("input", {
      class: "tv-filter",
      attrs: {
        type: "search",
        placeholder: "Filter: words, column:text, column>10",
        "aria-label": "Filter rows",
        "aria-describedby": help.id,
        spellcheck: "false",
      },
      on: {
        input: () => this.typed(),
        // Escape takes back the filter first, not the page's selection.
        keydown: (event) => event.key === "Escape" && this.input.value && event.stopPropagation(),
      },
    });
    const explain = h("button", {
      text: "?",
      title: FILTER_HELP,
      attrs: { "aria-label": "How to filter", "aria-expanded": "false" },
    });
    explain.addEventListener("click", () => {
      help.hidden = !help.hidden;
      explain.setAttribute("aria-expanded", String(!help.hidden));
    });
    const button = (text: string, title: string, click: () => void): HTMLElement => h("button", { text, title, on: { click } });
    const copy = button("Copy CSV", "The rows as shown, with exact values, to the clipboard", handlers.copy);
    const save = button("Save CSV", "The rows as shown, with exact values, as a file", handlers.save);
    this.element.append(
      h(
        "div",
        { class: "tv-controls" },
        this.input,
        explain,
        this.count,
        this.matchCount,
        h("span", { class: "tv-ways" }, this.said, copy, save),
      ),
      help,
      this.problem,
    );
  }

  /** Takes the filter from the state: a link, or another view, may have set it. */
  showFilter(filter: string): void {
    if (this.input.value !== filter) this.input.value = filter;
    clearTimeout(this.timer);
  }

  showCount(shown: number, all: number, problem: string): void {
    const rows = all === 1 ? "row" : "rows";
    this.count.textContent = shown === all ? `${formatCount(all)} ${rows}` : `${formatCount(shown)} of ${formatCount(all)} ${rows}`;
    this.problem.textContent = problem;
    this.problem.hidden = !problem;
    this.input.setAttribute("aria-invalid", String(Boolean(problem)));
  }

  /** How many rows the page's search finds. */
  showFound(search: string, rows: number): void {
    if (!search) return replace(this.matchCount);
    const filter = h("button", {
      text: "filter to these",
      on: { click: () => this.app.store.set({ filter: quoted(search) }) },
    });
    replace(this.matchCount, `${formatCount(rows)} ${rows === 1 ? "row matches" : "rows match"} the search `, rows > 0 && filter);
  }

  say(text: string): void {
    this.said.textContent = text;
    clearTimeout(this.fading);
    this.fading = window.setTimeout(() => (this.said.textContent = ""), 6000);
  }

  private typed(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.app.store.set({ filter: this.input.value }), FILTER_AFTER_MS);
  }
}
