// The tables: a list of them, the one that is shown, and its selected row in full.
import type { App, View } from "../../app";
import type { Table } from "../../data/table";
import { copyText, h, replace, save } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import type { Changed, Key } from "../../state";
import { About, Bar } from "./bar";
import { defaultTable } from "./catalog";
import { Detail } from "./detail";
import { whyEmpty } from "./empty";
import { registerEvents } from "./events";
import { registerPath } from "./path";
import { csvOf } from "./export";
import { extraTables, knowsTable, tableFor } from "./extra";
import { filterRows, rowsWith } from "./filter";
import { Picker } from "./picker";
import { nextSort, orderOf, sortFor } from "./sort";
import { actionsOf } from "./targets";
import { VirtualTable } from "./virtual";

export function mountTables(host: HTMLElement, app: App): View {
  if (app.hasTimeline) registerEvents();
  if (app.path) registerPath();
  return new TablesView(host, app);
}

class TablesView implements View {
  private readonly picker: Picker;
  private readonly about: About;
  private readonly bar: Bar;
  private readonly grid: VirtualTable;
  private readonly detail: Detail;
  private readonly empty = h("div", { class: "empty" });
  private table!: Table;
  private order: Uint32Array = new Uint32Array(0);
  private shownRow = -1;

  constructor(
    host: HTMLElement,
    private readonly app: App,
  ) {
    const { store } = app;
    this.picker = new Picker(app, (table) => store.set({ table, sort: null, filter: "", row: null }));
    this.about = new About(app);
    this.bar = new Bar(app, { copy: () => void this.copy(), save: () => this.save() });
    this.detail = new Detail(app, (text) => this.bar.say(text));
    this.grid = new VirtualTable({
      sort: (column) => store.set({ sort: nextSort(column, sortFor(store.get("sort"), this.table)) }),
      select: (row) => store.set({ row: this.table.originOf(row) }),
      open: (row) => this.open(row),
    });
    const panel = h("div", { class: "tv-panel" }, this.about.element, this.bar.element, this.empty, this.grid.element, this.detail.element);
    host.append(h("div", { class: "tv-tables" }, this.picker.element, panel));
    this.load();
  }

  update(changed: Changed): void {
    const has = (...keys: Key[]): boolean => keys.some((key) => changed.has(key));
    if (has("table", "steps", "range", "weight", "context") || this.shownRow !== extraTables.size) this.load();
    else if (has("sort", "filter")) this.arrange(has("row"));
    else if (has("row")) this.selectRow(true);
    if (has("q")) this.search();
  }

  private load(): void {
    const { app } = this;
    if (this.shownRow !== extraTables.size) this.picker.build();
    this.shownRow = extraTables.size;
    const asked = app.store.get("table");
    const name = asked && knowsTable(app, asked) ? asked : defaultTable(app);
    this.table = tableFor(app, name);
    this.picker.mark(name);
    this.about.show(this.table, asked === name ? "" : asked);
    this.grid.show(this.table, `Table ${name}: ${this.table.meaning}`);
    this.arrange(true);
    this.search();
  }

  /** Sorts and filters; shows the top, or the selected row where that was asked for. */
  private arrange(reveal: boolean): void {
    const { table } = this;
    const { store } = this.app;
    const sort = sortFor(store.get("sort"), table);
    const { keep, problem } = filterRows(table, store.get("filter"));
    const order = orderOf(table, sort);
    this.order = keep ? order.filter((row) => keep[row]) : order;
    this.bar.showFilter(store.get("filter"));
    this.bar.showCount(this.order.length, table.rows, problem);
    this.bar.element.hidden = this.grid.element.hidden = !table.rows;
    this.empty.hidden = this.order.length > 0;
    const why = table.rows ? ["No row passes the filter."] : whyEmpty(this.app, table);
    replace(this.empty, ...(this.order.length ? [] : why).map((text) => h("p", { text })));
    this.grid.arrange(this.order, sort);
    this.selectRow(reveal);
  }

  private selectRow(reveal: boolean): void {
    const origin = this.app.store.get("row");
    const row = origin === null ? -1 : this.table.rowFrom(origin);
    this.grid.select(row, reveal);
    if (row >= 0) this.detail.show(this.table, row, !this.order.includes(row));
    else this.detail.hint(this.table.rows ? "Select a row to see all of it here; Enter or a double click leads on from it." : "");
  }

  private search(): void {
    const search = this.app.store.get("q").trim();
    this.grid.search(search);
    const matches = search ? rowsWith(this.table, search).reduce((sum, hit) => sum + hit, 0) : 0;
    this.bar.showFound(this.table.rows ? search : "", matches);
  }

  private open(row: number): void {
    const action = actionsOf(this.app, this.table, row)[0];
    if (action) this.app.go(action.target);
    else this.bar.say(this.app.hasTimeline ? "This row has no place on the timeline." : "This row leads nowhere else.");
  }

  private async copy(): Promise<void> {
    const done = await copyText(csvOf(this.table, this.order));
    this.bar.say(
      done ? `${formatCount(this.order.length)} rows are on the clipboard as CSV.` : "The browser refused the clipboard: use Save CSV.",
    );
  }

  private save(): void {
    const name = `${fileStem(this.app)}.${this.table.name}.csv`;
    save(name, "text/csv;charset=utf-8", csvOf(this.table, this.order));
    this.bar.say(`${formatCount(this.order.length)} rows saved as ${name}.`);
  }
}

function fileStem(app: App): string {
  const file = app.isDiff ? "diff" : (app.header.source.split("/").pop() ?? "");
  return file.replace(/\.(json|gz|zip|pt|trace)\b/g, "") || "warplens";
}
