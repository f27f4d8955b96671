// The kernel's text: the line of the chosen operation is marked, a click on a line chooses an operation of it.
import { h, replace } from "../../shared/dom";
import { formatBytes, formatCount, formatFlop } from "../../shared/format";
import type { App, View } from "../app";
import type { SceneSource } from "../../shared/generated/records";

interface Totals {
  bytes: number;
  flop: number;
  ops: string;
}

export function mountSource(host: HTMLElement, app: App): View {
  const body = h("div", { class: "source", attrs: { tabindex: "0", role: "region", "aria-label": "Source text of the kernel" } });
  host.append(body);
  let rows = new Map<string, HTMLElement>();
  let marked: HTMLElement[] = [];

  function make(): void {
    const totals = totalsOf(app);
    rows = new Map();
    marked = [];
    const parts = sourcesOf(app).map(({ file, line, text }) => {
      const lines = text.map((code, at) => lineOf(file, line + at, code, totals.get(`${file}:${line + at}`)));
      return h("table", { class: "code" }, h("caption", { text: basename(file), title: file }), h("tbody", {}, ...lines));
    });
    replace(body, ...parts);
    // Arguments and setting up come first; the reader looks for what touches memory.
    const first = [...rows.values()].find((row) => row.classList.contains("has-ops"));
    body.scrollTop = first && first.offsetTop + first.offsetHeight > body.clientHeight ? first.offsetTop - body.clientHeight / 4 : 0;
  }

  function lineOf(file: string, line: number, code: string, total: Totals | undefined): HTMLElement {
    const number = total
      ? h("button", {
          text: String(line),
          title: `Next operation of line ${line}`,
          attrs: { "aria-label": `Line ${line}: next operation of it` },
          on: { click: () => choose(file, line) },
        })
      : String(line);
    const moved = total ? [total.bytes && formatBytes(total.bytes), total.flop && formatFlop(total.flop)].filter(Boolean).join(", ") : "";
    const row = h(
      "tr",
      {},
      h("th", { attrs: { scope: "row" } }, number),
      h("td", { class: "quiet moved", text: moved, title: total?.ops ?? "" }),
      h("td", { class: "text", text: code || " " }),
    );
    if (total) row.addEventListener("click", (event) => (event.target as HTMLElement).matches("button") || choose(file, line));
    row.classList.toggle("has-ops", Boolean(total));
    rows.set(`${file}:${line}`, row);
    return row;
  }

  /** The next operation of the line after the chosen one, or its first. */
  function choose(file: string, line: number): void {
    const { events, sites } = app.launch;
    if (!events) return;
    const operations = Array.from(app.programRows.keys()).filter((operation) => {
      const site = sites[events.site[app.programRows[operation]]];
      return (site.line === line && site.file === file) || site.path.some(([at, number]) => at === file && number === line);
    });
    const next = operations.find((operation) => operation > app.op) ?? operations[0];
    if (next !== undefined) app.store.set({ op: next });
  }

  function mark(): void {
    for (const row of marked) row.classList.remove("is-current", "is-caller");
    marked = [];
    if (app.opRow < 0) return;
    const site = app.launch.sites[app.launch.events!.site[app.opRow]];
    for (const [file, line] of [...site.path, [site.file, site.line] as const]) {
      const row = rows.get(`${file}:${line}`);
      if (!row) continue;
      row.classList.add(file === site.file && line === site.line ? "is-current" : "is-caller");
      marked.push(row);
    }
    const current = marked.at(-1);
    if (!current) return;
    // Only this box scrolls: scrollIntoView would move the page under the reader.
    const top = current.offsetTop;
    if (top < body.scrollTop || top + current.offsetHeight > body.scrollTop + body.clientHeight)
      body.scrollTop = top - body.clientHeight / 3;
  }

  make();
  mark();
  return {
    update(changed) {
      if (changed.has("launch")) make();
      if (changed.has("launch") || changed.has("op") || changed.has("program")) mark();
    },
  };
}

/** Without the text of the file, the statements that the trace itself holds. */
function sourcesOf({ launch }: App): SceneSource[] {
  if (launch.sources.length) return launch.sources;
  const lines = new Map(launch.sites.map((site) => [`${site.file}:${site.line}`, site]));
  return [...lines.values()].sort((a, b) => a.line - b.line).map(({ file, line, statement }) => ({ file, line, text: [statement] }));
}

function totalsOf({ launch }: App): Map<string, Totals> {
  const totals = new Map<string, Totals>();
  for (const access of launch.accesses) {
    const { file, line } = launch.sites[access.site];
    const total = totals.get(`${file}:${line}`) ?? { bytes: 0, flop: 0, ops: "" };
    total.bytes += access.true_bytes;
    total.flop += access.flop;
    total.ops += `${total.ops ? "; " : ""}${formatCount(access.accesses)} × ${access.op}${access.tensor >= 0 ? ` of ${launch.tensors[access.tensor].name}` : ""}`;
    totals.set(`${file}:${line}`, total);
  }
  return totals;
}

function basename(file: string): string {
  return file.split(/[\\/]/).at(-1) ?? file;
}
