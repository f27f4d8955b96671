// Why a table has no rows, in words.
import type { App } from "../../app";
import type { Table } from "../../data/table";
import { formatCount, formatPercent } from "../../../shared/format";
import { wholeRows } from "./extra";

const COSTED = ["roofline", "gemm", "attention", "convolution", "norm", "transfer"];
/** Tables whose own notes say how they are made; those of others say why they are empty. */
const NOTES_ON_METHOD = new Set([...COSTED, "ceilings", "gaps", "short_kernels"]);
/** Notes on the trace that leave a table empty, the first that applies. */
const NEEDS: Record<string, string[]> = {
  ops: ["no_host"],
  op_shapes: ["no_gpu", "no_host", "no_shapes", "graph_mode"],
  chains: ["no_gpu", "no_host", "no_shapes", "graph_mode"],
  modules: ["no_gpu", "no_host", "no_stacks"],
  python_lines: ["no_gpu", "no_host", "no_stacks"],
  steps: ["no_steps"],
  ceilings: ["no_gpu", "unknown_gpu"],
  host_events: ["no_host"],
  findings: ["no_gpu"],
  evidence: [],
  quality: [],
  memory: [],
  memory_ops: [],
};
const NOTHING: Record<string, string> = {
  quality: "No notes: stacks, shapes, steps and launches are all there.",
  findings: "No finding is worth a change.",
  evidence: "There are no findings, so there is no evidence for any.",
  gaps: "The GPU has no idle gap of this length.",
  short_kernels: "No kernel is this short.",
  chains: "No sequence of elementwise ops could be one kernel.",
  kernel_sequences: "No stream runs the same sequence of kernels three times.",
  repeated_calls: "No cell of a recurrent network and no model is called again and again where one call would do.",
  gemm: "No matrix product with known sizes is in this trace.",
  attention: "No fused attention with known sizes is in this trace.",
  convolution: "No convolution with known sizes is in this trace.",
  norm: "No normalisation op with known sizes is in this trace.",
  transfer: "No copy or memset in this trace records its bytes.",
  regions: "No regions inside kernels were recorded.",
  warp_regions: "No regions inside kernels were recorded.",
};

export function whyEmpty(app: App, table: Table): string[] {
  const { name } = table;
  const whole = wholeRows(app, name);
  if (app.scene && !app.selection.whole && whole > 0) {
    return [`Nothing of it is in ${app.selection.text}; for the whole trace there are ${formatCount(whole)} rows.`];
  }
  if (table.notes.length && !NOTES_ON_METHOD.has(name)) return table.notes.map(sentence);
  if (COSTED.includes(name) && app.hasTable("roofline") && (name === "roofline" || !app.wholeTable("roofline").rows))
    return whyNoCosts(app);
  const message = firstNote(app, NEEDS[name] ?? ["no_gpu"]);
  if (message) return [sentence(message)];
  return [NOTHING[name] ?? `There is nothing of this kind in this ${app.hasTimeline ? "trace" : "profile"}.`];
}

/** Why no op has FLOPs and bytes: from the notes on the trace and the table cost_coverage. */
export function whyNoCosts(app: App): string[] {
  const message = firstNote(app, ["no_gpu", "no_host", "no_shapes"]);
  return [...(message ? [sentence(message)] : []), ...uncosted(app)];
}

/** The shares of GPU time that have no cost, with their reasons. */
export function uncosted(app: App): string[] {
  if (!app.hasTable("cost_coverage")) return [];
  const table = app.table("cost_coverage");
  const rows = Array.from({ length: table.rows }, (_, row) => row).filter((row) => table.text("reason", row) !== "costed");
  return rows.map((row) => {
    const percent = table.number("percent", row);
    const share = percent < 0.05 ? "Under 0.1 %" : formatPercent(percent);
    return `${share} of the GPU time has no cost (${table.text("reason", row)}): ${table.text("meaning", row)}.`;
  });
}

/** The message of the first of some notes that the trace has. */
export function firstNote(app: App, codes: string[]): string {
  if (!app.hasTable("quality")) return "";
  const notes = app.wholeTable("quality");
  const row = codes.map((code) => notes.find("code", code)).find((candidate) => candidate >= 0);
  return row === undefined ? "" : notes.text("message", row);
}

export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
