// The bar between two columns: drag it, or move it with the arrow keys.
import { h } from "../shared/dom";

const LEAST = 0.08; // of the width that a column keeps
const KEY_STEP = 0.03;

/** `at` is the column before it; `resized` gets every column's share of the width. */
export function splitter(columns: HTMLElement, at: number, resized: (shares: number[]) => void): HTMLElement {
  const bar = h("div", {
    class: "splitter",
    attrs: {
      role: "separator",
      tabindex: "0",
      "aria-orientation": "vertical",
      "aria-label": "Width of the columns",
      "aria-valuemin": "0",
      "aria-valuemax": "100",
      "aria-valuenow": "50",
    },
  });
  const panes = (): HTMLElement[] => [...columns.querySelectorAll<HTMLElement>(":scope > .pane")];
  const shares = (): number[] => {
    const widths = panes().map((pane) => pane.getBoundingClientRect().width);
    const total = widths.reduce((sum, width) => sum + width, 0) || 1;
    return widths.map((width) => width / total);
  };
  const move = (by: number): void => {
    const sizes = shares();
    const moved = Math.max(LEAST - sizes[at], Math.min(sizes[at + 1] - LEAST, by));
    sizes[at] += moved;
    sizes[at + 1] -= moved;
    bar.setAttribute("aria-valuenow", String(Math.round(100 * sizes[at])));
    resized(sizes);
  };
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  bar.addEventListener("pointermove", (event) => {
    if (!bar.hasPointerCapture(event.pointerId)) return;
    const total = panes().reduce((sum, pane) => sum + pane.getBoundingClientRect().width, 0);
    const box = bar.getBoundingClientRect();
    move((event.clientX - box.left - box.width / 2) / total);
  });
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -KEY_STEP, ArrowRight: KEY_STEP }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    move(by);
  });
  return bar;
}
