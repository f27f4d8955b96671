// The box for SQL over the page's tables. What it gives is the table `query`, which is sorted, filtered and copied as any.
import type { App } from "../../app";
import { Table } from "../../data/table";
import { h, replace } from "../../../shared/dom";
import { FUNCTIONS } from "../../sql/evaluate";
import { RESULT, runQuery } from "../../sql/run";
import { SqlError } from "../../sql/tokens";
import { catalog, defaultTable } from "./catalog";
import { extraFacts, extraTables, tableFor } from "./extra";

const EXAMPLES: [table: string, query: string][] = [
  ["kernels", "select kernel_category, sum(total_us) as us, sum(count) as events from kernels group by kernel_category order by us desc"],
  [
    "gpu_events",
    "select kernel, count(*) as n, median(dur_us), max(dur_us) from gpu_events where dur_us < 10 group by kernel order by n desc limit 20",
  ],
  ["gaps", "select cause, count(*) as n, sum(gap_us) as us, max(gap_us) from gaps group by cause order by us desc"],
];
const HELP = `select … from one table where … group by … having … order by … limit …; functions: ${FUNCTIONS.join(", ")}; like, in, between, case. Texts stand in 'single' quotation marks.`;

const problems = new WeakMap<App, string>();

/** Where there is a query, there is a table `query`: its result for what is selected. */
export function registerQuery(app: App): void {
  if (!app.store.get("sql")) return;
  extraTables.set(RESULT, answer);
  extraFacts.set(RESULT, { key: ({ store }) => store.get("sql") });
}

function answer(app: App): Table {
  const names = namesFor(app);
  try {
    const text = app.store.get("sql");
    if (!text.trim()) throw new SqlError("Type a query into the box above.");
    const table = runQuery(text, { names, table: (name) => tableFor(app, name) });
    problems.set(app, "");
    return table;
  } catch (error) {
    if (!(error instanceof SqlError)) throw error;
    problems.set(app, error.message);
    return new Table({ name: RESULT, meaning: "no result", notes: [], rows: 0, columns: [] }, []);
  }
}

function namesFor(app: App): string[] {
  return catalog(app)
    .flatMap(([, tables]) => tables)
    .filter((name) => name !== RESULT);
}

export class QueryBox {
  readonly element: HTMLElement;
  private readonly input: HTMLTextAreaElement;
  private readonly problem = h("p", { class: "sql-problem warning", attrs: { role: "status" } });
  private readonly listing = h("div", { class: "sql-listing" });

  constructor(private readonly app: App) {
    this.input = h("textarea", {
      class: "sql-input",
      attrs: {
        rows: "1",
        spellcheck: "false",
        "aria-label": "SQL over the tables of this page",
        placeholder: `select … from ${defaultTable(app)} …`,
      },
      on: { keydown: (event) => this.key(event), input: () => this.grow() },
    });
    const run = h("button", {
      text: "Run",
      title: "Run the query (Enter; Shift+Enter begins a line)",
      on: { click: () => this.run(this.input.value) },
    });
    const help = h("details", { class: "sql-help" }, h("summary", { text: "Tables and columns" }), this.listing);
    help.addEventListener("toggle", () => help.open && this.list());
    const row = h("div", { class: "sql-row" }, h("span", { class: "quiet", text: "SQL" }), this.input, run, ...this.examples());
    this.element = h("div", { class: "sql" }, row, this.problem, help);
    this.show();
  }

  /** After the state changed, or the table was made again. */
  show(): void {
    const text = this.app.store.get("sql");
    if (text && this.input.value !== text) this.input.value = text;
    this.problem.textContent = this.app.store.get("table") === RESULT ? (problems.get(this.app) ?? "") : "";
    this.grow();
  }

  private key(event: KeyboardEvent): void {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.run(this.input.value);
  }
  private run(text: string): void {
    this.input.value = text;
    this.app.store.jump({ sql: text.trim(), table: RESULT, sort: null, filter: "", row: null });
  }
  private grow(): void {
    this.input.rows = Math.min(8, Math.max(1, this.input.value.split("\n").length));
  }

  private examples(): HTMLElement[] {
    const names = new Set(namesFor(this.app));
    return EXAMPLES.filter(([table]) => names.has(table)).map(([table, query]) =>
      h("button", { class: "link", text: `${table}?`, title: `For example: ${query}`, on: { click: () => this.run(query) } }),
    );
  }
  private list(): void {
    if (this.listing.childElementCount) return;
    const entries = namesFor(this.app).map((name) => {
      const { columns, meaning } = tableFor(this.app, name);
      const insert = (): void => {
        this.input.setRangeText(
          this.input.value ? name : `select * from ${name} limit 100`,
          this.input.selectionStart,
          this.input.selectionEnd,
          "end",
        );
        this.input.focus();
      };
      return h(
        "li",
        {},
        h("button", { class: "link", text: name, title: meaning, on: { click: insert } }),
        h("span", { class: "quiet", text: columns.map((column) => column.name).join(", ") }),
      );
    });
    replace(this.listing, h("p", { class: "quiet", text: HELP }), h("ul", {}, ...entries));
  }
}
