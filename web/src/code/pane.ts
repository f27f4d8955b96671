// One text of the compiler in a box of its own. Only the rows in sight are in the document: a text may be very long.
import { copyText, h } from "../shared/dom";
import { formatCount, formatPlural } from "../shared/format";
import { meaning, title, type App } from "./app";
import { FindBox } from "./find";
import type { Listing } from "./listing";
import { Overview } from "./overview";
import { paint, tokens } from "./tokens";

export const ROW_PX = 18;
const SPARE_ROWS = 12;
const KEYS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

export class Pane {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly inner = h("div", { class: "rows" });
  private readonly status = h("span", { class: "quiet status", attrs: { role: "status" } });
  private readonly before = this.arrow("▲", "Previous place of the line", -1);
  private readonly after = this.arrow("▼", "Next place of the line", 1);
  private readonly find: FindBox;
  private readonly overview: Overview;
  private readonly rows = new Map<number, HTMLElement>();
  private listing: Listing | null = null;
  /** The row that keys move from, and the one that the last step to a place went to. */
  private cursor = -1;
  private frame = 0;

  constructor(
    private readonly app: App,
    readonly kind: string,
  ) {
    this.find = new FindBox(title(kind), {
      search: (text) => (this.listing && text ? this.listing.find(text) : []),
      show: (row) => {
        this.cursor = row;
        this.reveal(row, true);
        this.redraw();
      },
      first: () => this.firstRow,
    });
    this.body = h(
      "div",
      {
        class: "text",
        attrs: { role: "listbox", tabindex: "0", "aria-label": title(kind), "data-kind": kind },
        on: { scroll: () => this.later(), keydown: (event) => this.key(event), focus: () => (app.lastPane = kind) },
      },
      this.inner,
    );
    this.overview = new Overview((row) => this.reveal(row, true));
    const head = h(
      "div",
      { class: "pane-head" },
      h("h2", { text: title(kind), title: meaning(kind) }),
      this.status,
      h("span", { class: "step" }, this.before, this.after),
      this.find.element,
      this.copier(),
    );
    this.element = h(
      "section",
      { class: "pane", attrs: { "aria-label": title(kind) } },
      head,
      h("div", { class: "pane-body" }, this.body, this.overview.element),
    );
    this.inner.addEventListener("mouseover", (event) => this.pointAt(event));
    this.element.addEventListener("mouseleave", () => app.hover(-1));
    this.element.addEventListener("mouseenter", () => (app.lastPane = kind));
    this.inner.addEventListener("click", (event) => this.clicked(event));
    new ResizeObserver(() => {
      this.overview.measure();
      this.redraw();
    }).observe(this.body);
  }

  /** After a change of the compilation or of what is left out. */
  show(): void {
    const top = this.listing ? this.listing.rows[this.firstRow] : -1;
    const before = this.listing;
    this.listing = this.app.listing(this.kind);
    if (!this.listing) return;
    this.cursor = -1;
    this.forget();
    this.inner.style.height = `${this.listing.rows.length * ROW_PX}px`;
    this.inner.style.minWidth = `calc(${this.listing.longest}ch + ${String(this.lineCount).length}ch + 2.5rem)`;
    this.inner.style.setProperty("--digits", `${String(this.lineCount).length}ch`);
    this.body.setAttribute("aria-label", `${title(this.kind)}, ${formatPlural(this.listing.rows.length, "line")}`);
    // The same lines stay in sight where the text is the same one, shown with more or less of it.
    if (before && top > 0)
      this.body.scrollTop =
        Math.max(
          0,
          this.listing.rows.findIndex((line) => line >= top),
        ) * ROW_PX;
    this.find.again();
    this.draw();
    this.mark();
  }

  /** After a change of the line that is chosen or pointed at. */
  mark(): void {
    const { active } = this.app;
    for (const [row, element] of this.rows) this.tint(row, element);
    this.overview.draw(this.listing, this.app, this.find.rows);
    const { line } = this.app;
    const count = this.listing && active >= 0 ? this.listing.rowsOf(active).length : 0;
    const all = this.listing?.rows.length ?? 0;
    this.status.textContent = active < 0 ? formatPlural(all, "line") : `${formatCount(count)} of ${formatCount(all)}`;
    this.status.title =
      active < 0
        ? ""
        : `${formatPlural(count, "line")} of ${formatCount(all)} come from line ${this.app.check.python[active].line} of the source`;
    const stretches = this.listing && line >= 0 ? this.listing.stretchesOf(line).length : 0;
    this.before.disabled = this.after.disabled = !stretches;
  }

  /** Brings what the chosen line does here into sight. */
  follow(): void {
    const { line } = this.app;
    if (!this.listing || line < 0) return;
    // A row that was clicked here is in sight already.
    if (this.cursor >= 0 && this.listing.pythonOf(this.cursor).includes(line)) return;
    const row = this.listing.mainRowOf(line);
    this.cursor = row;
    if (row >= 0) this.reveal(row, true);
    this.draw();
    this.mark();
  }

  /** To the next or previous stretch of the chosen line, round and round. */
  stepPlace(by: number): void {
    const { line } = this.app;
    const stretches = this.listing && line >= 0 ? this.listing.stretchesOf(line) : [];
    if (!stretches.length) return;
    const from = this.cursor >= 0 && stretches.includes(this.cursor) ? this.cursor : this.firstRow;
    const next =
      by > 0
        ? (stretches.find((row) => row > from) ?? stretches[0])
        : (stretches.findLast((row) => row < from) ?? stretches[stretches.length - 1]);
    this.cursor = next;
    this.reveal(next, true);
    this.redraw();
  }

  focusFind(): void {
    this.find.focus();
  }
  /** Whether there was a search to take back. */
  clearFind(): boolean {
    return this.find.clear();
  }
  redraw(): void {
    this.forget();
    this.draw();
    this.overview.draw(this.listing, this.app, this.find.rows);
  }

  private get lineCount(): number {
    return (this.listing?.rows.at(-1) ?? 0) + 1;
  }
  private get firstRow(): number {
    return Math.floor(this.body.scrollTop / ROW_PX);
  }

  private arrow(text: string, name: string, by: number): HTMLButtonElement {
    return h("button", {
      text,
      title: `${name} ([ and ])`,
      class: "small",
      attrs: { "aria-label": name },
      on: { click: () => this.stepPlace(by) },
    });
  }
  private copier(): HTMLButtonElement {
    const button = h("button", { text: "Copy", title: "Copy the whole text as it is shown", class: "small" });
    const copy = async (): Promise<void> => {
      const done = this.listing !== null && (await copyText(this.listing.whole()));
      button.textContent = done ? "Copied" : "Not copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    };
    button.addEventListener("click", () => void copy());
    return button;
  }
  private later(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }
  private forget(): void {
    for (const element of this.rows.values()) element.remove();
    this.rows.clear();
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { listing } = this;
    if (!listing || !this.body.clientHeight) return;
    // Read before anything is written: asking in between makes the browser lay the page out again.
    const [top, height] = [this.body.scrollTop / ROW_PX, this.body.clientHeight / ROW_PX];
    this.overview.place(top, height);
    const first = Math.max(0, Math.floor(top) - SPARE_ROWS);
    const last = Math.min(listing.rows.length, Math.ceil(top + height) + SPARE_ROWS);
    for (const [row, element] of this.rows) {
      if (row >= first && row < last) continue;
      element.remove();
      this.rows.delete(row);
    }
    const fragment = document.createDocumentFragment();
    for (let row = first; row < last; row++) {
      if (this.rows.has(row)) continue;
      const element = this.make(listing, row);
      this.rows.set(row, element);
      fragment.append(element);
    }
    this.inner.append(fragment);
    if (this.rows.has(this.cursor)) this.body.setAttribute("aria-activedescendant", this.idOf(this.cursor));
    else this.body.removeAttribute("aria-activedescendant");
  }

  private make(listing: Listing, row: number): HTMLElement {
    const text = listing.text(row);
    const code = h("span", { class: "code" });
    paint(code, text, tokens(this.kind, text), this.find.query);
    const element = h(
      "div",
      {
        class: "row",
        id: this.idOf(row),
        attrs: { role: "option", "data-row": String(row), "aria-posinset": String(row + 1), "aria-setsize": String(listing.rows.length) },
      },
      h("span", { class: "no", text: String(listing.rows[row] + 1), attrs: { "aria-hidden": "true" } }),
      code,
    );
    element.style.top = `${row * ROW_PX}px`;
    this.tint(row, element);
    return element;
  }

  private tint(row: number, element: HTMLElement): void {
    const python = this.listing?.pythonOf(row) ?? [];
    const { active, line } = this.app;
    const [own] = python;
    const hue = own === undefined ? null : this.app.hue(own);
    element.classList.toggle("is-dim", own === undefined);
    element.classList.toggle("is-linked", hue !== null);
    element.classList.toggle("is-active", active >= 0 && python.includes(active));
    element.classList.toggle("is-called", active >= 0 && own !== active && python.includes(active));
    element.classList.toggle("is-cursor", row === this.cursor);
    element.setAttribute("aria-selected", String(line >= 0 && python.includes(line)));
    if (hue !== null) element.style.setProperty("--h", String(hue));
  }

  private idOf(row: number): string {
    return `${this.kind}-${row}`;
  }
  private rowOf(event: Event): number {
    const row = (event.target as Element).closest<HTMLElement>(".row");
    return row ? Number(row.dataset["row"]) : -1;
  }

  private pointAt(event: Event): void {
    const row = this.rowOf(event);
    if (!this.listing || row < 0) return;
    const element = this.rows.get(row);
    const chain = this.app.check.plain.chains[this.listing.chain(row)];
    if (element && !element.title) {
      element.title = chain ? chain.map((place) => this.app.placeText(place)).join(" ← ") : "no line of the source: the compiler's own";
    }
    this.app.hover(this.listing.pythonOf(row)[0] ?? -1, chain);
  }

  private clicked(event: MouseEvent): void {
    const row = this.rowOf(event);
    // A selection of text does not choose a line.
    if (row < 0 || !getSelection()?.isCollapsed) return;
    this.moveTo(row);
  }
  private moveTo(row: number): void {
    if (!this.listing) return;
    this.cursor = row;
    this.app.choose(this.listing.pythonOf(row)[0] ?? -1);
    this.draw();
    for (const [row, element] of this.rows) this.tint(row, element);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.listing) return;
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW_PX) - 2);
    const by = KEYS[event.key] ?? { PageDown: page, PageUp: -page }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const from = this.cursor < 0 ? this.firstRow - (by > 0 ? 1 : 0) : this.cursor;
    const row = Math.min(this.listing.rows.length - 1, Math.max(0, from + by));
    this.reveal(row, false);
    this.moveTo(row);
  }

  /** Scrolls this box only; `roomy` leaves some lines above a row that was out of sight. */
  private reveal(row: number, roomy: boolean): void {
    const top = row * ROW_PX;
    const { scrollTop, clientHeight } = this.body;
    if (top >= scrollTop && top + ROW_PX <= scrollTop + clientHeight - ROW_PX) return;
    if (roomy) this.body.scrollTop = top - clientHeight / 4;
    else this.body.scrollTop = top < scrollTop ? top : top + 2 * ROW_PX - clientHeight;
    this.draw();
  }
}
