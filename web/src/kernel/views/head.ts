// The top: what was launched, what it moved and computed, and what was sampled or left out.
import { h, replace } from "../../shared/dom";
import { formatBytes, formatCount, formatFlop, formatPercent, formatPlural, significant } from "../../shared/format";
import { sizeText, type App, type View } from "../app";
import { helpButton } from "../../shared/help";
import { themeButton } from "../../shared/theme";

export function mountHead(host: HTMLElement, app: App): View {
  const { store, scene } = app;
  const title = h("h1");
  const facts = h("div", { class: "facts" });
  const badges = h("div", { class: "badges" });
  const picker = launchPicker(app);
  host.append(
    h("div", { class: "bar" }, h("div", { class: "tools" }, title, picker), h("div", { class: "tools" }, themeButton(store), helpButton())),
    facts,
    badges,
  );

  const show = (): void => {
    const { launch } = app;
    title.textContent = launch.kernel;
    replace(
      facts,
      ...factsOf(app).map(([name, value, why]) => h("span", { title: why }, h("span", { class: "quiet", text: `${name} ` }), value)),
    );
    replace(badges, ...notesOf(app).map((text) => h("span", { class: "badge", text })));
    if (picker) picker.querySelector("select")!.value = String(scene.header.launches.findIndex(({ index }) => index === launch.index));
  };
  show();
  return {
    update(changed) {
      if (changed.has("launch")) show();
    },
  };
}

function launchPicker(app: App): HTMLElement | null {
  const { launches } = app.scene.header;
  if (launches.length < 2) return null;
  const options = launches.map((launch, at) => {
    const from = launch.called_from ? ` from ${launch.called_from}` : "";
    const faults = launch.faults.length ? `, ${formatPlural(launch.faults.length, "fault")}` : "";
    return h("option", {
      text: `${launch.index}: ${launch.kernel} [${sizeText(launch.grid)}]${from}${faults}`,
      attrs: { value: String(at) },
    });
  });
  const select = h(
    "select",
    { id: "launch", on: { change: () => app.store.set({ launch: Number(select.value), program: null, op: null, dims: [] }) } },
    ...options,
  );
  return h("label", {}, "Launch ", select);
}

function factsOf({ launch, scene }: App): [name: string, value: string, why: string][] {
  const { totals } = launch;
  const bytes = (name: string): string => formatBytes(totals[name] ?? 0);
  const facts: [string, string, string][] = [
    ["grid", sizeText(launch.grid), "programs in x, y and z"],
    ["loads", bytes("loaded_bytes"), "bytes of the active lanes of loads"],
    ["stores", bytes("stored_bytes"), "bytes of the active lanes of stores"],
  ];
  if (totals["atomic_bytes"]) facts.push(["atomics", bytes("atomic_bytes"), "bytes of the active lanes of atomics"]);
  const masked = ["loads", "stores"]
    .map((what): [string, number | null | undefined] => [what, totals[`masked_${what}_percent`]])
    .filter(([, share]) => share)
    .map(([what, share]) => `${formatPercent(share as number)} of ${what}`);
  if (masked.length) facts.push(["masked", masked.join(", "), "lanes that a mask switches off, of all lanes"]);
  facts.push(["computes", formatFlop(totals["flop"] ?? 0), "floating operations executed, masked lanes included"]);
  const { flop_per_byte: low, flop_per_unique_byte: high } = totals;
  if (low !== null) facts.push(["intensity", `${significant(low)} FLOP/byte`, "if no access hits a cache"]);
  if (high !== null) facts.push(["at most", `${significant(high)} FLOP/byte`, "if every repeated access hits a cache"]);
  facts.push(["Triton", scene.header.triton, "the version whose interpreter ran it"]);
  if (launch.called_from) facts.push(["launched at", launch.called_from, "file and line of the launch"]);
  return facts;
}

function notesOf({ launch, scene }: App): string[] {
  const programs = launch.grid[0] * launch.grid[1] * launch.grid[2];
  const traced =
    launch.traced_programs < programs
      ? `${formatCount(launch.traced_programs)} of ${formatPlural(programs, "program")} traced${scene.header.sampling ? `, ${scene.header.sampling}` : ""}: all figures are of these`
      : `all ${formatPlural(programs, "program")} traced`;
  const counted = launch.events ? [] : ["only totals were recorded: no operations to show"];
  return [traced, ...counted, ...scene.header.notes, ...launch.notes];
}
