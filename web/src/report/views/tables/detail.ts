// The selected row in full: every column's name, value and meaning, and where the row leads.
import type { App } from "../../app";
import type { Column, Table } from "../../data/table";
import { copyText, h, replace } from "../../../shared/dom";
import { cellText } from "./cells";
import { jsonOf } from "./export";
import { actionsOf } from "./targets";

export class Detail {
  readonly element = h("div", { class: "tv-detail", attrs: { role: "region", "aria-label": "Selected row" } });

  constructor(
    private readonly app: App,
    private readonly say: (text: string) => void,
  ) {}

  hint(text: string): void {
    replace(this.element, text ? h("p", { class: "quiet", text }) : null);
  }

  show(table: Table, row: number, filteredOut: boolean): void {
    const actions = actionsOf(this.app, table, row);
    const buttons = actions.map(({ text, target }, at) =>
      h("button", { text: at ? text : `${text} ⏎`, on: { click: () => this.app.go(target) } }),
    );
    const copy = h("button", { text: "Copy row as JSON", on: { click: () => void this.copy(table, row) } });
    const title = h("strong", { text: titleOf(table, row) });
    const hidden = filteredOut && h("span", { class: "warning", text: "not among the filtered rows" });
    replace(
      this.element,
      h("div", { class: "tv-actions" }, title, hidden, ...buttons, copy),
      h("dl", {}, ...table.columns.map((column) => entry(table, column, row))),
    );
  }

  private async copy(table: Table, row: number): Promise<void> {
    this.say((await copyText(jsonOf(table, row))) ? "The row is on the clipboard as JSON." : "The browser refused the clipboard.");
  }
}

function titleOf(table: Table, row: number): string {
  const column = table.columns.find(({ kind }) => kind === "text") ?? table.columns[0];
  const text = table.textOf(column, row);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text || `row ${row + 1}`;
}

function entry(table: Table, column: Column, row: number): HTMLElement {
  const text = column.kind === "bool" && column.values[row] === 0 ? "no" : cellText(table, column, row);
  const value = column.unit && text ? `${text} ${column.unit}` : text;
  return h(
    "div",
    { class: text.length > 60 ? "long" : "" },
    h("dt", { text: column.name }),
    h("dd", { class: "tv-value", text: value || "—" }),
    h("dd", { class: "tv-meaning", text: column.meaning }),
  );
}
