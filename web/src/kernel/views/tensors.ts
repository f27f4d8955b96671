// The tensors of the launch, each as a map, and what all maps are coloured by.
import type { State } from "../state";
import { choice, h, press, replace } from "../../shared/dom";
import type { App, View } from "../app";
import { colours } from "../palette";
import { TensorMap } from "./map";

type Show = State["show"];
const OPTIONS: [Show, string, string][] = [
  ["program", "This program", "What the program loads and stores"],
  ["programs", "Programs per element", "How many programs touch each element"],
  ["accesses", "Accesses per element", "How often all programs touch each element"],
  ["before", "Values before", "The tensor as it was before the launch"],
  ["after", "Values after", "The tensor as it was after the launch"],
];

export function mountTensors(host: HTMLElement, app: App): View {
  const { store } = app;
  const bar = h("div", { class: "tools wrap" });
  const holder = h("div", { class: "maps" });
  host.append(bar, holder);
  let maps: TensorMap[] = [];
  let group: HTMLElement;
  const zoom = h("input", {
    id: "zoom",
    attrs: { type: "checkbox" },
    on: { change: () => store.set({ zoom: zoom.checked }) },
  });

  function make(): void {
    const { tensors, events } = app.launch;
    const hasValues = tensors.some(({ before }) => before);
    const options = OPTIONS.filter(([value]) => hasValues || (value !== "before" && value !== "after"));
    group = choice("Colour the maps by", options, store.get("show"), (show) => store.set({ show }));
    replace(bar, group, h("label", {}, zoom, " only what the program touches"), legend());
    maps = events
      ? tensors.map(
          (_, number) =>
            new TensorMap(app, number, (choice) => {
              const before = store.get("dims");
              store.set({ dims: tensors.map((_, other) => (other === number ? choice : (before[other] ?? null))) });
            }),
        )
      : [];
    replace(holder, ...maps.map(({ element }) => element));
    if (!events) holder.append(h("p", { class: "empty", text: "Only totals were recorded: maps need a trace made without --count." }));
  }

  function legend(): HTMLElement {
    const { names, beyond } = colours();
    const swatch = (name: string, colour: string, more = ""): HTMLElement => {
      const box = h("i", { class: `swatch${colour ? "" : " hatched"}${more}` });
      if (colour) box.style.background = colour;
      return h("span", {}, box, ` ${name}`);
    };
    return h(
      "span",
      { class: "legend small" },
      swatch("loaded", names.load),
      swatch("stored", names.store),
      swatch("both", names.both),
      swatch("atomic", names.atomic),
      swatch("masked", ""),
      swatch("past the end", beyond),
      app.launch.faults.some(({ kind }) => kind === "out_of_bounds") && swatch("out of bounds", "", " bad"),
    );
  }

  function draw(): void {
    zoom.checked = store.get("zoom");
    press(group, store.get("show"));
    for (const [number, map] of maps.entries()) map.update(store.get("dims")[number] ?? null);
  }

  make();
  draw();
  return {
    update(changed) {
      if (changed.has("launch") || changed.has("theme")) make();
      if (["launch", "program", "op", "show", "zoom", "dims", "theme"].some((key) => changed.has(key as "op"))) draw();
    },
  };
}
