// The place beside the lanes for the details, as wide as the reader once made it. It is beside them and never over them.
import { h } from "../../../shared/dom";
import { remember, remembered } from "../../../shared/remembered";

const NAME = "details.width";
const USUAL_PX = 352;
const LEAST_PX = 220;
const MOST = 0.6; // of the width that lanes and details share
const KEY_PX = 24;

/** The bar between the lanes and `panel`: drag it, or move it with the arrow keys. */
export function sideBar(body: HTMLElement, panel: HTMLElement): HTMLElement {
  const bar = h("div", {
    class: "tl-splitter",
    title: "Drag to make the details wider or narrower",
    attrs: { role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": "Width of the details", "aria-valuemin": "0" },
  });
  const widen = (wanted: number): void => {
    const most = Math.max(LEAST_PX, MOST * (body.clientWidth || innerWidth));
    const width = Math.round(Math.min(most, Math.max(LEAST_PX, wanted)));
    body.style.setProperty("--tl-side", `${width}px`);
    bar.setAttribute("aria-valuemax", String(Math.round(most)));
    bar.setAttribute("aria-valuenow", String(width));
  };
  const keep = (): void => remember(NAME, panel.offsetWidth);
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  bar.addEventListener("pointermove", (event) => {
    if (bar.hasPointerCapture(event.pointerId)) widen(panel.getBoundingClientRect().right - event.clientX);
  });
  bar.addEventListener("pointerup", keep);
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: KEY_PX, ArrowRight: -KEY_PX }[event.key];
    if (!by) return;
    event.preventDefault();
    widen(panel.offsetWidth + by);
    keep();
  });
  widen(remembered(NAME) ?? USUAL_PX);
  return bar;
}
