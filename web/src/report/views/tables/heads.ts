// The header of a table: sorts on click or Enter, shows what a column means, and is walked with the arrow keys.
import type { Column } from "../../data/table";
import { h } from "../../../shared/dom";
import { columnWidth } from "./pool";
import type { Sort } from "../../state";

export class Heads {
  readonly element = h("div", { class: "tv-row tv-heads", attrs: { role: "row", "aria-rowindex": "1" } });
  /** What the column with the focus means: `title` only shows for the mouse. */
  readonly help = h("div", { class: "tv-help", attrs: { role: "tooltip", id: "tv-help" } });
  private buttons: HTMLButtonElement[] = [];
  private columns: Column[] = [];

  constructor(private readonly sortBy: (column: Column) => void) {
    this.help.hidden = true;
    this.element.addEventListener("keydown", (event) => this.move(event));
    this.element.addEventListener("focusout", () => (this.help.hidden = true));
  }

  show(columns: Column[]): void {
    this.columns = columns;
    this.buttons = columns.map((column, at) => this.button(column, at));
    const cells = columns.map((column, at) =>
      h(
        "div",
        {
          class: `tv-cell ${column.kind}`,
          title: helpText(column),
          attrs: { role: "columnheader", "aria-colindex": String(at + 1), "data-column": column.name },
        },
        this.buttons[at],
      ),
    );
    cells.forEach((cell, at) => (cell.style.width = columnWidth(at)));
    this.element.replaceChildren(...cells);
  }

  mark(sort: Sort | null): void {
    this.columns.forEach(({ name }, at) => {
      const order = sort?.column === name ? (sort.descending ? "descending" : "ascending") : "none";
      const cell = this.element.children[at];
      cell.setAttribute("aria-sort", order);
      cell.classList.toggle("sorted", order !== "none");
      const arrow = this.buttons[at].lastElementChild as HTMLElement;
      arrow.textContent = order === "none" ? "" : order === "descending" ? "▼" : "▲";
    });
  }

  private button(column: Column, at: number): HTMLButtonElement {
    return h(
      "button",
      {
        attrs: { tabindex: at ? "-1" : "0", "aria-description": helpText(column) },
        on: { click: () => this.sortBy(column), focus: () => this.explain(at) },
      },
      h("span", { class: "tv-name", text: column.name }),
      column.unit && !tellsUnit(column) && h("span", { class: "tv-unit", text: column.unit }),
      h("span", { class: "tv-arrow", attrs: { "aria-hidden": "true" } }),
    );
  }

  private explain(at: number): void {
    this.buttons.forEach((button, index) => (button.tabIndex = index === at ? 0 : -1));
    if (!this.buttons[at].matches(":focus-visible")) return;
    this.help.hidden = false;
    this.help.textContent = helpText(this.columns[at]);
    const frame = this.help.offsetParent?.getBoundingClientRect();
    const under = this.buttons[at].getBoundingClientRect();
    if (!frame) return;
    this.help.style.left = `${Math.max(0, Math.min(under.left - frame.left, frame.width - this.help.offsetWidth))}px`;
    this.help.style.top = `${under.bottom - frame.top + 4}px`;
  }

  private move(event: KeyboardEvent): void {
    const at = this.buttons.indexOf(event.target as HTMLButtonElement);
    const last = this.buttons.length - 1;
    const to = { ArrowRight: Math.min(last, at + 1), ArrowLeft: Math.max(0, at - 1), Home: 0, End: last }[event.key];
    if (event.key === "Enter" || event.key === " ") event.stopPropagation();
    if (event.key === "Escape") this.help.hidden = true;
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.buttons[to].focus();
    this.buttons[to].scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function helpText({ name, unit, meaning }: Column): string {
  return `${name}${unit ? ` [${unit}]` : ""}: ${meaning}`;
}

/** Most names end in their unit already: total_us, percent. */
function tellsUnit({ name, unit }: Column): boolean {
  return new RegExp(`(^|_)${unit === "%" ? "percent(_.*)?" : unit.replace(/\W/g, "")}$`, "i").test(name);
}
