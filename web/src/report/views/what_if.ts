// What if: findings to tick, and the step's time with those mended. Gains do not add up, and here that is seen.
import type { App, View } from "../app";
import { type Interval, stepWith, winsBeside } from "../data/fixes";
import { h, replace } from "../../shared/dom";
import { formatCount, formatMs } from "../../shared/format";
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
    replace(this.result, ...this.resultParts(stepWith(subsets, []), stepWith(subsets, mended), mended));
    subsets.rows.forEach((row, place) => {
      const ticked = mended.includes(row);
      this.boxes[place].checked = ticked;
      const won = winsBeside(subsets, row, mended);
      const others = mended.length > (ticked ? 1 : 0);
      const text = this.isBound(row) ? `≤ ${formatMs(Math.max(0, won.high))}` : between(won);
      this.wins[place].textContent = `${others && !ticked ? "another " : ""}${text}`;
      this.wins[place].title = others ? "what it wins beside the others that are ticked" : "what it wins alone";
    });
  }
  private resultParts(before: Interval, after: Interval, mended: readonly number[]): (HTMLElement | string)[] {
    const what = this.app.hasSteps ? "step" : "the run";
    if (!mended.length) return [`${what} ${between(before)} without the profiler: tick what you would change`];
    // Of bounds nothing is known but the most that they win.
    const text = mended.some((row) => this.isBound(row)) ? `≥ ${formatMs(after.low)}` : between(after);
    const share = before.ms ? (100 * after.ms) / before.ms : 0;
    return [
      `${what} ${between(before)} → `,
      h("b", { text }),
      h("span", { class: "meter", attrs: { "aria-hidden": "true", style: `--share:${share}%` } }),
    ];
  }
  private isBound(row: number): boolean {
    return this.app.wholeTable("findings").number("bound", row) > 0;
  }

  private note(): string {
    const all = this.subsets.out_of;
    const some =
      all > this.subsets.rows.length ? `The first ${this.subsets.rows.length} of ${formatCount(all)} that can be simulated. ` : "";
    return `${some}Each combination was simulated on the step without the profiler: what one change wins depends on the others.`;
  }
}

/** `11.9 ms (9.6 to 13.7 ms)`; one number where that is all there is. */
function between({ ms, low, high }: Interval): string {
  const [expected, least, most] = [ms, Math.max(0, low), high].map(formatMs);
  return least === most ? expected : `${expected} (${least} to ${most})`;
}
