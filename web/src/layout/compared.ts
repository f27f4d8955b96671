// Every access of every tile, as a table.
import { h } from "../shared/dom";
import { formatBytes, formatCount } from "../shared/format";
import { table } from "../shared/table";
import type { App } from "./app";

export function mountCompared(host: HTMLElement, app: App): void {
  const lines = app.page.panels.flatMap((panel) =>
    panel.accesses.map((access) => [
      panel.text,
      access.name,
      access.is_possible ? formatCount(access.ways) : "–",
      access.is_possible ? formatCount(access.passes) : "not possible",
      formatCount(access.best_passes),
      access.is_possible ? String(access.vector_bits) : "–",
      formatBytes(panel.size_bytes),
    ]),
  );
  if (!lines.length) return;
  host.append(
    h("h2", { text: "Every access of every layout" }),
    h("div", { class: "scroll" }, table(["Layout", "Access", "Ways", "Passes", "At best", "Bits a lane", "Size"], lines)),
  );
}
