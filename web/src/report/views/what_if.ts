// What if: findings to tick, and the step's time with those mended. Gains do not add up, and here that is seen.
import type { App, View } from "../app";
import { stepWith, winsBeside } from "../data/fixes";
import { h, replace } from "../../shared/dom";
import { formatCount, formatMs, formatPercent } from "../../shared/format";
import type { FixSubsets } from "../../shared/generated/records";

/** The panel, or null where no finding's change was simulated. */
export function whatIfPanel(app: App): (View & { element: HTMLElement }) | null {
  const subsets = app.header.fixSubsets;
  return subsets && new Panel(app, subsets);
}

class Panel implements View {
  readonly element: HTMLElement;
  private readonly result = h("p", { class: "wi-result", attrs: { role: "status", "aria-live": "polite" } });
  private readonly boxes: HTMLInputElement[];
  private readonly wins: HTMLElement[];

  constructor(
    private readonly app: App,
    private readonly subsets: FixSubsets,
  ) {
    this.boxes = subsets.rows.map((row) =>
      h("input", { attrs: { type: "checkbox", "data-row": String(row) }, on: { change: () => this.toggle(row) } }),
    );
    this.wins = subsets.rows.map(() => h("span", { class: "wi-wins" }));
    this.element = h(
      "div",
      { class: "wi", attrs: { role: "group", "aria-labelledby": "wi-title" } },
      h(
        "div",
        { class: "wi-head" },
        h("h3", { id: "wi-title", text: "What if" }),
        this.result,
        h("span", { class: "wi-buttons" }, this.button("All", subsets.rows), this.button("None", [])),
      ),
      h("ul", {}, ...subsets.rows.map((row, place) => this.item(row, place))),
      h("p", { class: "quiet", text: this.note() }),
    );
    this.show();
  }

  update(changed: Parameters<View["update"]>[0]): void {
    if (changed.has("fixes")) this.show();
  }

  private item(row: number, place: number): HTMLElement {
    const findings = this.app.wholeTable("findings");
    const [code, where] = [findings.text("code", row), findings.text("place", row)];
    const isOnly = this.subsets.rows.filter((other) => findings.text("code", other) === code).length < 2;
    return h(
      "li",
      {},
      h(
        "label",
        {},
        this.boxes[place],
        h("code", { text: code }),
        h(
          "span",
          { class: "wi-title", title: where },
          findings.text("title", row),
          !isOnly && h("span", { class: "quiet", text: ` ${where}` }),
        ),
        this.wins[place],
      ),
    );
  }
  private button(text: string, rows: readonly number[]): HTMLElement {
    return h("button", { text, on: { click: () => this.app.store.set({ fixes: rows }) } });
  }
  private toggle(row: number): void {
    const { store } = this.app;
    const ticked = new Set(store.get("fixes"));
    if (!ticked.delete(row)) ticked.add(row);
    store.set({ fixes: [...ticked].sort((a, b) => a - b) });
  }

  private show(): void {
    const { subsets } = this;
    const mended = this.app.store.get("fixes").filter((row) => subsets.rows.includes(row));
    replace(this.result, ...this.resultParts(stepWith(subsets, []), stepWith(subsets, mended), mended.length > 0));
    subsets.rows.forEach((row, place) => {
      const ticked = mended.includes(row);
      this.boxes[place].checked = ticked;
      const ms = winsBeside(subsets, row, mended);
      const others = mended.length > (ticked ? 1 : 0);
      this.wins[place].textContent = `${others && !ticked ? "another " : ""}${signed(-ms)}`;
      this.wins[place].title = others ? "what it wins beside the others that are ticked" : "what it wins alone";
    });
  }
  private resultParts(before: number, after: number, any: boolean): (HTMLElement | string)[] {
    const what = this.app.hasSteps ? "step" : "the run";
    if (!any) return [`${what} ${formatMs(before)} without the profiler: tick what you would change`];
    const share = before ? (100 * (after - before)) / before : 0;
    return [
      `${what} ${formatMs(before)} → `,
      h("b", { text: formatMs(after) }),
      ` (${Math.abs(share) < 0.05 ? "±0 %" : `${share < 0 ? "−" : "+"}${formatPercent(Math.abs(share))}`})`,
      h("span", { class: "meter", attrs: { "aria-hidden": "true", style: `--share:${before ? (100 * after) / before : 0}%` } }),
    ];
  }

  private note(): string {
    const all = this.subsets.out_of;
    const some =
      all > this.subsets.rows.length ? `The first ${this.subsets.rows.length} of ${formatCount(all)} that can be simulated. ` : "";
    return `${some}Each combination was simulated on the step without the profiler: what one change wins depends on the others.`;
  }
}

function signed(ms: number): string {
  if (Math.abs(ms) < 0.0005) return "±0 ms";
  return `${ms < 0 ? "−" : "+"}${formatMs(Math.abs(ms))}`;
}
