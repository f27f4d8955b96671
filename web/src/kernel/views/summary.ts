// What the program and all traced programs moved and computed, per statement and per tensor.
import { h, replace } from "../../shared/dom";
import { formatCount, formatNumber, formatPercent, significant } from "../../shared/format";
import { idText, type App, type View } from "../app";
import { table } from "../../shared/table";

export function mountSummary(host: HTMLElement, app: App): View {
  const totals = h("div", { class: "scroll" });
  const statements = h("div", { class: "scroll" });
  const reuse = h("div", { class: "scroll" });
  host.append(
    h("div", { class: "split" }, totals, h("div", {}, h("h3", { text: "By tensor: use and reuse" }), reuse)),
    h("h3", { text: "By statement, all traced programs" }),
    statements,
  );
  const show = (): void => {
    replace(
      totals,
      table(["", `program ${idText(app.ids())}`, `all ${formatCount(app.launch.traced_programs)} traced programs`], totalRows(app)),
    );
  };
  const rest = (): void => {
    replace(
      statements,
      table(["Line", "Operation", "Tensor", "Times", "Bytes", "Active lanes", "Sectors needed", "FLOP", "Statement"], statementRows(app)),
    );
    replace(
      reuse,
      app.launch.reuse.length
        ? table(["Tensor", "Bytes loaded", "Bytes touched", "By several programs", "Loads per byte read"], reuseRows(app))
        : h("p", { class: "quiet", text: "Not recorded: the trace was made without checks." }),
    );
  };
  show();
  rest();
  return {
    update(changed) {
      if (changed.has("launch") || changed.has("program")) show();
      if (changed.has("launch")) rest();
    },
  };
}

interface Sums {
  loaded: number;
  stored: number;
  atomic: number;
  lanes: number;
  active: number;
  /** Of loads and of stores: all lanes, and those that a mask switches off. */
  load: [lanes: number, masked: number];
  store: [lanes: number, masked: number];
  dot: number;
}

function programSums(app: App): Sums {
  const sums: Sums = { loaded: 0, stored: 0, atomic: 0, lanes: 0, active: 0, load: [0, 0], store: [0, 0], dot: 0 };
  for (const row of app.programRows) {
    const kind = app.kind(row);
    if (kind === "load") sums.loaded += app.trueBytes(row);
    if (kind === "store") sums.stored += app.trueBytes(row);
    if (kind === "atomic") sums.atomic += app.trueBytes(row);
    const [lanes, active] = [app.lanes(row), app.activeLanes(row)];
    sums.lanes += lanes;
    sums.active += active;
    if (kind === "load" || kind === "store") {
      sums[kind][0] += lanes;
      sums[kind][1] += lanes - active;
    }
    sums.dot += app.dotFlop(row);
  }
  return sums;
}

function totalRows(app: App): string[][] {
  const { totals } = app.launch;
  const own = app.launch.events ? programSums(app) : null;
  const whole = (value: number | null | undefined): string => (value === null || value === undefined ? "" : formatCount(value));
  const percent = (value: number | null | undefined): string => (value === null || value === undefined ? "" : formatPercent(value));
  const masked = (part: [number, number] | undefined): string => (part?.[0] ? formatPercent((100 * part[1]) / part[0]) : "");
  const ratio = (value: number | null | undefined): string => (value === null || value === undefined ? "" : significant(value));
  return [
    ["Bytes loaded", whole(own?.loaded), whole(totals["loaded_bytes"])],
    ["Bytes stored", whole(own?.stored), whole(totals["stored_bytes"])],
    ["Bytes of atomics", whole(own?.atomic), whole(totals["atomic_bytes"])],
    ["Bytes if no lane were masked", "", whole(totals["attempted_bytes"])],
    [
      "Active lanes of all lanes",
      percent(own && own.lanes ? (100 * own.active) / own.lanes : null),
      percent(totals["active_lanes_percent"]),
    ],
    ["Masked lanes of loads", masked(own?.load), percent(totals["masked_loads_percent"])],
    ["Masked lanes of stores", masked(own?.store), percent(totals["masked_stores_percent"])],
    ["Sectors needed of those touched (100 %: coalesced)", "", percent(totals["sector_percent"])],
    ["FLOPs of matrix products", whole(own?.dot), whole(totals["dot_flop"])],
    ["FLOPs of reductions and scans", "", whole(totals["reduce_flop"])],
    ["FLOPs of elementwise arithmetic", "", whole(totals["elementwise_flop"])],
    ["FLOP per byte, no cache", "", ratio(totals["flop_per_byte"])],
    ["FLOP per byte, every repeat cached", "", ratio(totals["flop_per_unique_byte"])],
    ["Bytes touched at all", "", whole(totals["unique_bytes"])],
    ["Bytes touched by several programs", "", whole(totals["shared_bytes"])],
  ];
}

function statementRows({ launch }: App): string[][] {
  return launch.accesses.map((access) => [
    String(launch.sites[access.site].line),
    access.op,
    launch.tensors[access.tensor]?.name ?? "",
    formatCount(access.accesses),
    access.lanes ? formatCount(access.true_bytes) : "",
    access.lanes ? formatPercent((100 * access.active_lanes) / access.lanes) : "",
    access.sectors ? formatPercent((100 * access.minimum_sectors) / access.sectors) : "",
    access.flop ? formatCount(access.flop) : "",
    launch.sites[access.site].statement,
  ]);
}

function reuseRows({ launch }: App): string[][] {
  return launch.reuse.map((row) => {
    const loads = launch.accesses.filter(({ op, tensor }) => op === "load" && row.tensors.includes(launch.tensors[tensor]?.name));
    const loaded = loads.reduce((sum, access) => sum + access.true_bytes, 0);
    return [
      row.tensors.join(", "),
      formatCount(loaded),
      formatCount(row.unique_bytes),
      formatCount(row.shared_bytes),
      row.read_bytes && loaded ? formatNumber(loaded / row.read_bytes, "") : "",
    ];
  });
}
