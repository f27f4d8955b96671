// What is known of a collective: in the box beside the pointer, and in the panel once it is chosen.
import { h, replace } from "../../../shared/dom";
import { formatBytes, formatNs, formatNumber, formatPlural } from "../../../shared/format";
import type { Fact } from "../../../shared/tip";
import type { App } from "../../app";
import type { Job } from "../../data/job";

export interface DetailsHost {
  readonly app: App;
  readonly job: Job;
  readonly chosen: number;
  readonly details: HTMLElement;
  select(call: number): void;
}

export function callWords(job: Job, call: number): [title: string, lines: string[], facts: Fact[]] {
  const { data } = job;
  const calls = job.matched(call);
  const isMatched = data.match[call] >= 0;
  const facts: Fact[] = [
    ["takes", formatNs(data.length[call])],
    ["waits", isMatched ? formatNs(job.wait(call)) : "not known: no counterpart was found"],
    ["transfers", isMatched ? formatNs(data.length[call] - job.wait(call)) : ""],
    ["bytes", data.bytes[call] >= 0 ? formatBytes(data.bytes[call]) : ""],
    ["group", job.group(call)],
    ["peer", data.peer[call] >= 0 ? `rank ${data.peer[call]}` : ""],
    ["step", data.step[call] >= 0 ? String(data.step[call]) : ""],
    ["last rank", isMatched && calls.length > 1 ? String(job.rankOfCall(job.lastOf(calls)).rank) : ""],
  ];
  const hint = isMatched ? [`${formatPlural(calls.length, "rank")} on this timeline; click for the wait of each`] : [];
  return [`rank ${job.rankOfCall(call).rank}: ${job.kind(call)}`, hint, facts.filter(([, value]) => value)];
}

/** The panel beside the timeline. */
export function showDetails(host: DetailsHost): void {
  const { details, chosen } = host;
  details.parentElement?.classList.toggle("tl-alone", chosen < 0);
  if (chosen < 0) return replace(details);
  const [title, , facts] = callWords(host.job, chosen);
  const close = h("button", { text: "×", title: "Close (Esc)", attrs: { "aria-label": "Close" }, on: { click: () => host.select(-1) } });
  const list = [...facts, ...measured(host)].flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]);
  replace(
    details,
    h("div", { class: "tl-titlebar" }, h("h3", { text: title }), close),
    h("div", { class: "tl-description" }, ...waitList(host), h("dl", {}, ...list), tableButton(host)),
  );
}

/** The row of the table `collectives`, -1 where there is none. */
function rowOf({ app, job, chosen }: DetailsHost): number {
  if (job.data.match[chosen] < 0 || !app.hasTable("collectives")) return -1;
  return app.wholeTable("collectives").column("collective").values.indexOf(job.data.match[chosen]);
}

const MEASURES = ["wait_max_us", "wait_sum_us", "transfer_us", "start_skew_us", "end_skew_us", "algbw_gbps", "busbw_gbps"];

function measured(host: DetailsHost): Fact[] {
  const row = rowOf(host);
  if (row < 0) return [];
  const table = host.app.wholeTable("collectives");
  return MEASURES.flatMap((name): Fact[] => {
    const value = table.number(name, row);
    if (Number.isNaN(value)) return [];
    const text = name.endsWith("_us") ? formatNs(value * 1e3) : `${formatNumber(value, "")} GB/s`;
    return [[name.replace(/_(us|gbps)$/, "").replaceAll("_", " "), text]];
  });
}

function tableButton(host: DetailsHost): HTMLElement | null {
  const row = rowOf(host);
  const open = (): void => host.app.go({ to: "table", table: "collectives", row });
  return row < 0 ? null : h("button", { text: "Its row in the table collectives", on: { click: open } });
}

/** Each rank's wait, the longest first; the rank that came last has none. */
function waitList(host: DetailsHost): HTMLElement[] {
  const { job, chosen } = host;
  if (job.data.match[chosen] < 0) return [];
  const calls = job.matched(chosen);
  const last = job.lastOf(calls);
  const most = Math.max(...calls.map((call) => job.wait(call)), 1);
  const items = [...calls]
    .sort((a, b) => job.wait(b) - job.wait(a) || a - b)
    .map((call) => {
      const bar = h("i", { class: "job-bar" });
      bar.style.width = `${(100 * job.wait(call)) / most}%`;
      const words = call === last ? "last" : formatNs(job.wait(call));
      const name = h("span", { class: call === chosen ? "job-this" : "", text: `rank ${job.rankOfCall(call).rank}` });
      return h("li", {}, h("button", { on: { click: () => host.select(call) } }, bar, name, h("span", { text: words })));
    });
  return [h("h4", { text: "Wait of each rank" }), h("ol", { class: "job-waits" }, ...items)];
}
