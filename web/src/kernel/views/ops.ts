// Operations of the program in the order they ran; only the rows in sight are made.
import { h } from "../../shared/dom";
import { formatFlop, formatNumber } from "../../shared/format";
import { sizeText, type App, type View } from "../app";

const ROW_PX = 24;
// Many rows are made at each step: this has its formatter ready.
const count = (value: number): string => formatNumber(value, "");
const SPARE_ROWS = 4;

export function mountOps(host: HTMLElement, app: App): View {
  const inner = h("div", { class: "rows" });
  const list = h(
    "div",
    {
      class: "ops",
      attrs: { role: "listbox", tabindex: "0", "aria-label": "Operations of the program: arrow keys choose one" },
      on: { scroll: () => draw(), keydown: (event) => key(event) },
    },
    inner,
  );
  const status = h("p", { class: "quiet small", id: "op-status", attrs: { role: "status", "aria-live": "polite" } });
  host.append(list, status);

  function key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW_PX) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const by = steps[event.key];
    if (by === undefined) return;
    event.preventDefault();
    app.step("op", by);
  }

  function row(number: number): HTMLElement {
    const chosen = number === app.op;
    const cells = number < 0 ? allCells() : cellsOf(app, app.programRows[number], number);
    const element = h(
      "div",
      {
        class: `op${number >= 0 ? ` is-${app.kind(app.programRows[number])}` : ""}`,
        id: `op-${number}`,
        attrs: { role: "option", "aria-selected": String(chosen) },
        on: { click: () => app.store.set({ op: number < 0 ? null : number }) },
      },
      ...cells.map((text) => h("span", { text })),
    );
    element.style.top = `${(number + 1) * ROW_PX}px`;
    return element;
  }

  function allCells(): string[] {
    return ["", "all", count(app.programRows.length), "", "", ""];
  }

  function draw(): void {
    const all = app.programRows.length + 1;
    inner.style.height = `${all * ROW_PX}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(all, Math.ceil((list.scrollTop + (list.clientHeight || 400)) / ROW_PX) + SPARE_ROWS);
    inner.replaceChildren(...Array.from({ length: Math.max(0, last - first) }, (_, at) => row(first + at - 1)));
    const active = app.op + 1 >= first && app.op + 1 < last;
    if (active) list.setAttribute("aria-activedescendant", `op-${app.op}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function reveal(): void {
    const top = (app.op + 1) * ROW_PX;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW_PX > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW_PX - list.clientHeight;
  }

  function say(): void {
    const { opRow } = app;
    status.textContent =
      opRow < 0
        ? "Line, operation, tensor, block, active lanes of all."
        : `Chosen: ${cellsOf(app, opRow, app.op).filter(Boolean).join(", ")}. ${app.launch.sites[app.launch.events!.site[opRow]].statement}`;
  }

  draw();
  say();
  return {
    update(changed) {
      if (!changed.has("launch") && !changed.has("program") && !changed.has("op")) return;
      reveal();
      draw();
      say();
    },
  };
}

function cellsOf(app: App, row: number, number: number): string[] {
  const lanes = app.lanes(row);
  const kind = app.kind(row);
  const shape = app.shape(row);
  // The last size of a product is the one it sums over.
  const block = kind === "dot" ? `${sizeText(shape.slice(0, -1))} over ${shape.at(-1)}` : sizeText(shape);
  const active = kind === "dot" ? formatFlop(app.dotFlop(row)) : lanes ? `${count(app.activeLanes(row))} of ${count(lanes)}` : "";
  return [`${number}`, `line ${app.line(row)}`, app.opName(row), app.tensorName(row), block, active];
}
