// Faults with program, line and index; a click goes there.
import { h, replace } from "../../shared/dom";
import { formatPlural } from "../../shared/format";
import { idText, type App, type View } from "../app";
import type { Fault, NumberError } from "../data";

export function mountFaults(host: HTMLElement, app: App): View {
  const section = host.parentElement as HTMLElement;
  const show = (): void => {
    const { faults, numbers } = app.launch;
    section.classList.toggle("is-empty", !faults.length && !numbers.length);
    const rows = faults.map((fault, at) => row(app, fault, at));
    const found = faults.length
      ? table(["Fault", "Line", "Tensor", "Program", "Index", "How often", "What happened", "Remedy"], rows)
      : h("p", { class: "quiet", text: "None found." });
    replace(
      host,
      found,
      numbers.length
        ? table(
            NUMBERS,
            numbers.map((number) => numberRow(app, number)),
          )
        : null,
    );
  };
  show();
  return {
    update(changed) {
      if (changed.has("launch")) show();
    },
  };
}

const NUMBERS = ["Output", "Type", "Median error", "Largest error", "At", "Value", "In fp64", "Grows most at"];

function table(names: string[], rows: HTMLElement[]): HTMLElement {
  const heads = names.map((text) => h("th", { text, attrs: { scope: "col" } }));
  return h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)));
}

function numberRow(app: App, number: NumberError): HTMLElement {
  const cells = [
    number.tensor,
    number.dtype,
    `${number.median_ulps.toPrecision(3)} ulps`,
    `${number.largest_ulps.toPrecision(3)} ulps`,
    number.place.join(", "),
    number.value.toPrecision(6),
    number.shadow.toPrecision(6),
    number.site < 0 ? "" : `line ${app.launch.sites[number.site].line}`,
  ];
  return h("tr", {}, ...cells.map((text) => h("td", { text })));
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
  const programs = fault.programs ? ` in ${formatPlural(fault.programs, "program")}` : "";
  const often = `${formatPlural(fault.elements, "element")}${programs}`;
  const cells = [
    String(sites[fault.site].line),
    fault.tensor,
    idText(fault.program),
    fault.place.length ? fault.place.join(", ") : fault.index < 0 && !fault.tensor ? "" : String(fault.index),
    often,
    fault.message,
    fault.remedy,
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
