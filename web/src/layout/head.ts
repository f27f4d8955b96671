// The top: what is shown, and what can be chosen.
import { choice, h, press } from "../shared/dom";
import { helpButton } from "../shared/help";
import { themeButton } from "../shared/theme";
import type { App, View } from "./app";
import type { Shown } from "./state";

const NAMES: Record<Shown, [text: string, title: string]> = {
  "": ["", ""],
  conflicts: ["conflicts", "what one wavefront touches: the bank of each element, red where lanes wait for each other"],
  bank: ["bank", "the bank that serves each element"],
  offset: ["offset", "place of each element in memory"],
  thread: ["thread", "the thread that holds or accesses each element"],
  warp: ["warp", "the warp of that thread"],
  lane: ["lane", "the lane of that thread"],
  register: ["register", "the register that holds each element"],
};

export function mountHead(host: HTMLElement, app: App): View {
  const { store, page } = app;
  const shown = choice(
    "Number the elements by",
    app.choices.map((value) => [value, ...NAMES[value]] as const),
    current(),
    (value) => store.set({ show: value, pick: null }),
  );
  const access = h(
    "select",
    { id: "access", on: { change: () => store.set({ access: Number(access.value), wave: 0 }) } },
    ...app.accessNames.map((text, at) => h("option", { text, attrs: { value: String(at) } })),
  );
  const wave = h("input", {
    id: "wave",
    attrs: { type: "range", min: "0", "aria-label": "Wavefront" },
    on: { input: () => store.set({ wave: Number(wave.value) }) },
  });
  const pick = h("input", {
    id: "pick",
    class: "number",
    attrs: { type: "number", min: "0", placeholder: "none", "aria-label": "Number to frame" },
    on: { change: () => store.set({ pick: pick.value === "" ? null : Math.max(0, Math.floor(Number(pick.value))) }) },
  });
  const accessTools = h("label", {}, "access ", access);
  const waveTools = h("label", {}, "wavefront ", wave);
  const meaning = h("p", { class: "quiet" });
  host.append(
    h("div", { class: "bar" }, h("h1", { text: page.header.title }), h("div", { class: "tools" }, themeButton(store), helpButton())),
    h("div", { class: "tools wrap" }, h("span", { text: "show" }), shown, accessTools, waveTools, h("label", {}, "frame ", pick)),
    meaning,
    ...page.header.notes.map((text) => h("p", { class: "small quiet", text })),
  );
  accessTools.hidden = app.accessNames.length < 1;

  function current(): Shown {
    return store.get("show") || app.choices[0];
  }
  function show(): void {
    press(shown, current());
    access.value = String(store.get("access"));
    wave.max = String(app.mostWaves - 1);
    wave.value = String(Math.min(store.get("wave"), app.mostWaves - 1));
    waveTools.hidden = app.mostWaves < 2;
    pick.value = store.get("pick") === null ? "" : String(store.get("pick"));
    const chosen = page.panels.map((panel) => app.access(panel)).find(Boolean);
    meaning.textContent = [NAMES[current()][1], chosen?.meaning].filter(Boolean).join("; ");
  }
  show();
  return {
    update() {
      show();
    },
  };
}
