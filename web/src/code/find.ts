// A box to search one text: matches are counted, Enter goes to the next, Shift+Enter to the previous.
import { h } from "../shared/dom";
import { formatCount } from "../shared/format";

interface Searched {
  /** Rows that contain a text, in lower case. */
  search(query: string): number[];
  show(row: number): void;
  /** The first row in sight: a new search begins there. */
  first(): number;
}

export class FindBox {
  rows: number[] = [];
  query = "";
  readonly element: HTMLElement;
  private at = -1;
  private readonly input: HTMLInputElement;
  private readonly status = h("span", { class: "quiet find-status", attrs: { role: "status", "aria-live": "polite" } });

  constructor(
    name: string,
    private readonly searched: Searched,
  ) {
    this.input = h("input", {
      class: "find",
      attrs: { type: "search", placeholder: "Find  /", "aria-label": `Find in ${name}`, spellcheck: "false" },
      on: { input: () => this.search(), keydown: (event) => this.key(event) },
    });
    this.element = h("span", { class: "finding" }, this.status, this.input);
  }

  focus(): void {
    this.input.focus({ preventScroll: true });
    this.input.select();
  }
  /** After a change of the text. */
  again(): void {
    this.rows = this.searched.search(this.query);
    this.at = Math.min(this.at, this.rows.length - 1);
    this.say();
  }
  clear(): boolean {
    if (!this.query) return false;
    this.input.value = "";
    this.search();
    return true;
  }

  private search(): void {
    this.query = this.input.value.toLowerCase();
    this.rows = this.searched.search(this.query);
    const first = this.searched.first();
    this.at = this.rows.findIndex((row) => row >= first);
    if (this.at < 0) this.at = this.rows.length ? 0 : -1;
    this.say();
    this.searched.show(this.at < 0 ? first : this.rows[this.at]);
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      event.stopPropagation();
      if (!this.clear()) this.input.blur();
    } else if (event.key === "Enter" && this.rows.length) {
      event.preventDefault();
      this.at = (this.at + (event.shiftKey ? this.rows.length - 1 : 1)) % this.rows.length;
      this.say();
      this.searched.show(this.rows[this.at]);
    }
  }

  private say(): void {
    this.status.textContent = !this.query
      ? ""
      : this.rows.length
        ? `${formatCount(this.at + 1)} of ${formatCount(this.rows.length)}`
        : "not found";
  }
}
