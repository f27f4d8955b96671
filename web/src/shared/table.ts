// A table of texts; columns of numbers are right-aligned.
import { h } from "./dom";

export function table(heads: string[], rows: string[][]): HTMLElement {
  const isNumber = heads.map((_, at) => rows.some((row) => row[at]) && rows.every((row) => /^[\d.,\s%-]*$/.test(row[at] ?? "")));
  const classed = (at: number): { class?: string } =>
    isNumber[at] && at > 0 ? { class: "number-cell" } : heads[at] === "Statement" ? { class: "statement" } : {};
  const head = heads.map((text, at) => h("th", { text, ...classed(at), attrs: { scope: "col" } }));
  const body = rows.map(([first, ...cells]) =>
    h("tr", {}, h("th", { text: first, attrs: { scope: "row" } }), ...cells.map((text, at) => h("td", { text, ...classed(at + 1) }))),
  );
  return h("table", { class: "data" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}
