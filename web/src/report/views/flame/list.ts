// The tree as a list: the same frames and numbers as the chart, a row each, opened and closed by hand.
import { h, replace } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import { fullName, shareOf, type Look } from "./facts";
import { childrenOf } from "./frames";
import { ROOT } from "./tree";

const ROW_PX = 24;
const LEAST_PERCENT = 0.1;
const OPEN_FROM_PERCENT = 5;
const OPEN_AT_MOST = 40;
const SPARE_ROWS = 10;

export class TreeList {
  readonly element: HTMLElement;
  private readonly scroll: HTMLElement;
  private readonly body: HTMLElement;
  private readonly space: HTMLElement;
  private readonly head: HTMLElement;
  private readonly note: HTMLElement;
  private look: Look | null = null;
  private root = ROOT;
  private matches: Uint8Array | null = null;
  private open = new Set<number>();
  /** The frames that have a row, from top to bottom, and the one that takes the keys. */
  private rows: number[] = [];
  private active = 0;

  constructor(private readonly choose: (frame: number) => void) {
    this.body = h("div", {
      class: "tree-rows",
      attrs: { role: "rowgroup" },
      on: { click: (event) => this.click(event), keydown: (event) => this.key(event) },
    });
    this.space = h("div", { class: "tree-space", attrs: { role: "presentation" } }, this.body);
    this.note = h("p", { class: "quiet" });
    this.head = h("div", { class: "tree-row tree-head", attrs: { role: "row" } });
    const top = h("div", { class: "tree-top", attrs: { role: "rowgroup" } }, this.head);
    this.scroll = h(
      "div",
      { class: "tree-scroll", attrs: { role: "treegrid", "aria-label": "Call tree" }, on: { scroll: () => this.render() } },
      top,
      this.space,
    );
    this.element = h("div", { class: "tree-list" }, this.scroll, this.note);
  }

  show(look: Look, root: number, matches: Uint8Array | null): void {
    const changed = look !== this.look || root !== this.root;
    this.look = look;
    this.root = root;
    this.matches = matches;
    if (changed) {
      replace(this.head, ...["name", ...look.columns].map((text) => h("span", { text, attrs: { role: "columnheader" } })));
      this.open = openedAtFirst(look, root);
      this.active = 0;
      this.scroll.scrollTop = 0;
    }
    this.refill();
  }

  private refill(): void {
    const { rows, hidden } = rowsOf(this.look as Look, this.root, this.open);
    this.rows = rows;
    this.active = Math.min(this.active, rows.length - 1);
    this.space.style.height = `${rows.length * ROW_PX}px`;
    this.note.textContent = hidden
      ? `${formatCount(hidden)} frames below ${LEAST_PERCENT} % of all are not listed among these rows; zoom in or save the folded stacks for all of them.`
      : "";
    this.render();
  }

  private render(): void {
    if (!this.look) return;
    const hadFocus = this.body.contains(document.activeElement);
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(this.rows.length, Math.ceil((this.scroll.scrollTop + this.scroll.clientHeight) / ROW_PX) + SPARE_ROWS);
    this.body.style.transform = `translateY(${first * ROW_PX}px)`;
    replace(this.body, ...this.rows.slice(first, last).map((frame, index) => this.row(frame, first + index)));
    if (hadFocus) this.body.querySelector<HTMLElement>('[tabindex="0"]')?.focus({ preventScroll: true });
  }

  private row(frame: number, position: number): HTMLElement {
    const look = this.look as Look;
    const { frames } = look;
    const level = frames.depth[frame] - frames.depth[this.root];
    const isLeaf = frames.end[frame] === frame + 1;
    const swatch = h("i", { class: "swatch" });
    swatch.style.background = look.colour(frame);
    const text = fullName(look, frame);
    const toggle = h("span", {
      class: "tree-toggle",
      text: isLeaf ? "" : this.open.has(frame) ? "▾" : "▸",
      attrs: { "aria-hidden": "true" },
    });
    const name = h("span", { class: "tree-name", title: text, attrs: { role: "gridcell" } }, toggle, swatch, text);
    name.style.paddingLeft = `${0.3 + 0.9 * Math.min(level, 40)}rem`;
    return h(
      "div",
      {
        class: this.matches?.[frames.name[frame]] ? "tree-row match" : "tree-row",
        attrs: {
          role: "row",
          tabindex: position === this.active ? "0" : "-1",
          "data-place": String(position),
          "aria-level": String(level + 1),
          "aria-rowindex": String(position + 1),
          ...(isLeaf ? {} : { "aria-expanded": String(this.open.has(frame)) }),
        },
      },
      name,
      ...look.cells(frame).map((cell) => h("span", { text: cell, attrs: { role: "gridcell" } })),
    );
  }

  private click(event: MouseEvent): void {
    const row = (event.target as HTMLElement).closest<HTMLElement>(".tree-row");
    if (!row) return;
    this.active = Number(row.dataset["place"]);
    row.focus({ preventScroll: true });
    this.choose(this.rows[this.active]);
    this.toggle(this.rows[this.active]);
  }
  private toggle(frame: number, open = !this.open.has(frame)): void {
    if (open) this.open.add(frame);
    else this.open.delete(frame);
    this.refill();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const frame = this.rows[this.active];
    const { frames } = this.look as Look;
    const isOpen = this.open.has(frame);
    const isLeaf = frames.end[frame] === frame + 1;
    if (event.key === "ArrowDown") this.moveTo(this.active + 1);
    else if (event.key === "ArrowUp") this.moveTo(this.active - 1);
    else if (event.key === "Home") this.moveTo(0);
    else if (event.key === "End") this.moveTo(this.rows.length - 1);
    else if (event.key === "ArrowRight" && !isLeaf) void (isOpen ? this.moveTo(this.active + 1) : this.toggle(frame, true));
    else if (event.key === "ArrowLeft") void (isOpen ? this.toggle(frame, false) : this.moveTo(this.rows.indexOf(frames.parent[frame])));
    else if (event.key === "Enter" || event.key === " ") this.toggle(frame);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  private moveTo(position: number): void {
    if (position < 0 || position >= this.rows.length) return;
    this.active = position;
    const { scrollTop, clientHeight } = this.scroll;
    if (position * ROW_PX < scrollTop) this.scroll.scrollTop = position * ROW_PX;
    // The row of headings stays on top and takes one row's height.
    else if ((position + 2) * ROW_PX > scrollTop + clientHeight) this.scroll.scrollTop = (position + 2) * ROW_PX - clientHeight;
    this.render();
    this.choose(this.rows[position]);
  }
}

/** The heaviest frames are open from the start, as far as they fit on a screen. */
function openedAtFirst({ frames }: Look, root: number): Set<number> {
  const open = new Set([root]);
  const heavy = (frame: number): boolean => shareOf(frames, frame, root) >= OPEN_FROM_PERCENT;
  for (let frame = root; frame < frames.end[root] && open.size < OPEN_AT_MOST; frame++) {
    if (heavy(frame) && (frame === root || open.has(frames.parent[frame]))) open.add(frame);
  }
  return open;
}

function rowsOf({ frames }: Look, root: number, open: Set<number>): { rows: number[]; hidden: number } {
  const rows: number[] = [];
  let hidden = 0;
  const least = (frames.width[ROOT] * LEAST_PERCENT) / 100;
  const add = (frame: number): void => {
    rows.push(frame);
    if (!open.has(frame)) return;
    for (const child of childrenOf(frames, frame)) {
      if (frames.width[child] >= least) add(child);
      else hidden += frames.end[child] - child;
    }
  };
  add(root);
  return { rows, hidden };
}
