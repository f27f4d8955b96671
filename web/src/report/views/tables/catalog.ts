// Which tables there are, in the order in which they are of use.
import type { App } from "../../app";
import { extraTables, knowsTable, wholeRows } from "./extra";

const GROUPS: [title: string, tables: string[]][] = [
  ["GPU time", ["kernels", "kernel_categories", "ops", "op_shapes", "modules", "scopes", "python_lines", "phases", "launch_categories"]],
  [
    "Inside kernels",
    ["regions", "warp_regions", "stalls", "measured_kernels", "counters", "counter_stalls", "counter_instructions", "counter_rules"],
  ],
  ["Limits", ["bounds", "critical_path", "roofline", "gemm", "attention", "convolution", "norm", "transfer", "cost_coverage", "ceilings"]],
  [
    "Launches",
    ["launches", "short_kernels", "kernel_durations", "kernel_sequences", "repeated_calls", "chains", "queue", "queue_timeline"],
  ],
  ["Graphs", ["graph_ops", "graph_joins"]],
  ["Idle time and steps", ["gaps", "idle", "steps", "step_diff", "timeline", "activity"]],
  ["Serving", ["iterations", "serving_phases", "serving_categories", "token_latency", "slow_iterations"]],
  [
    "Memory",
    ["memory_peak", "memory_modules", "memory_failures", "memory_timeline", "allocations", "fragmentation", "memory", "memory_ops"],
  ],
  ["Power and clocks", ["step_energy", "gpu_counters", "counter_timeline"]],
  ["Communication", ["comm"]],
  ["Events", ["gpu_events", "host_events", "call_tree"]],
  ["Calls", ["call_paths", "tree", "arguments"]],
  ["Replay", ["replay", "replay_units", "replay_categories", "replay_ops", "replay_left", "unique", "unique_kernels", "units"]],
  ["Ranks", ["job", "stragglers", "ranks", "rank_steps", "rank_idle", "waits", "job_what_if", "job_critical_path"]],
  ["Collectives", ["collectives", "collective_kinds", "groups", "exposed_by_module", "pipeline", "all_to_all"]],
  ["Report", ["step_time", "breakdown", "findings", "evidence", "quality"]],
];

/** The groups with the tables that this page has; those that no group names come last. */
export function catalog(app: App): [title: string, tables: string[]][] {
  const all = [...app.tableNames, ...extraTables.keys()];
  const compared = all.filter((name) => name.startsWith("diff_") || name === "report_tables");
  const grouped = new Set([...GROUPS.flatMap(([, tables]) => tables), ...compared]);
  const others = all.filter((name) => !grouped.has(name));
  const groups: [string, string[]][] = [["Comparison", compared], ...GROUPS, ["Other", others]];
  return groups
    .map(([title, tables]): [string, string[]] => [title, tables.filter((name) => knowsTable(app, name))])
    .filter(([, tables]) => tables.length);
}

export function defaultTable(app: App): string {
  const names = catalog(app).flatMap(([, tables]) => tables);
  return names.find((name) => wholeRows(app, name) > 0) ?? names[0];
}
