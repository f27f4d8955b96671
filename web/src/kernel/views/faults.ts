// Faults with program, line and index; a click goes there.
import { h, replace } from "../../shared/dom";
import { formatPlural } from "../../shared/format";
import { idText, type App, type View } from "../app";
import type { Fault } from "../data";

export function mountFaults(host: HTMLElement, app: App): View {
  const section = host.parentElement as HTMLElement;
  const show = (): void => {
    const { faults } = app.launch;
    section.classList.toggle("is-empty", !faults.length);
    if (!faults.length) return replace(host, h("p", { class: "quiet", text: "None found." }));
    const rows = faults.map((fault, at) => row(app, fault, at));
    const heads = ["Fault", "Line", "Tensor", "Program", "Index", "How often", "What happened"].map((text) =>
      h("th", { text, attrs: { scope: "col" } }),
    );
    replace(
      host,
      h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows))),
    );
  };
  show();
  return {
    update(changed) {
      if (changed.has("launch")) show();
    },
  };
}

function row(app: App, fault: Fault, at: number): HTMLElement {
  const { sites } = app.launch;
  const goes = h("button", {
    class: "fault",
    text: fault.kind.replaceAll("_", " "),
    title: app.scene.header.fault_kinds[fault.kind] ?? "",
    attrs: { "data-fault": String(at) },
    on: { click: () => goTo(app, fault) },
  });
  const often = `${formatPlural(fault.elements, "element")} in ${formatPlural(fault.programs, "program")}`;
  const cells = [
    String(sites[fault.site].line),
    fault.tensor,
    idText(fault.program),
    fault.index < 0 && !fault.tensor ? "" : String(fault.index),
    often,
    fault.message,
  ];
  return h("tr", {}, h("td", {}, goes), ...cells.map((text) => h("td", { text })));
}

/** To the program and the first operation of the statement in it. */
function goTo(app: App, fault: Fault): void {
  app.store.set({ program: app.numberOf(fault.program), op: null });
  const events = app.launch.events;
  if (!events) return;
  const operation = app.programRows.findIndex(
    (row) => events.site[row] === fault.site && (!fault.tensor || app.tensorName(row) === fault.tensor),
  );
  if (operation >= 0) app.store.set({ op: operation });
  document.getElementById("ops")?.scrollIntoView({ block: "nearest" });
}
