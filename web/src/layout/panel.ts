// One tile: its figures, its elements as a grid of numbers, and the banks of the wavefront that is shown.
import { h } from "../shared/dom";
import { cssColour, ink, isDark } from "../shared/colours";
import { formatBytes, formatCount, formatPlural } from "../shared/format";
import { Picture, pixel, type TipText } from "../shared/picture";
import { table } from "../shared/table";
import { elementsOf, wordsPerBank, type Panel } from "./data";
import type { App, View } from "./app";

const GRID_PX = 560;
const LARGEST_CELL_PX = 26;
const BARS_PX = 136;
const BARS_CELL_PX = 17;
const GOLDEN = 137.5; // degrees between the hues of neighbours
const VARIANTS: Record<string, string> = { given: "Given", plain: "Plain rows", padded: "Padded", swizzled: "Swizzled" };

export function mountPanel(host: HTMLElement, app: App, panel: Panel): View {
  const figures = h("p", { class: "figures", attrs: { role: "status" } });
  const grid = new Picture({ label: "", tip: app.tip, describe: (row, column) => describe(row, column), choose });
  const banks = new Picture({ label: "", tip: app.tip, describe: (_, bank) => describeBank(bank) });
  const wave = h("p", { class: "small quiet" });
  const bars = h("div", {}, wave, banks.element);
  host.append(
    h("h2", { text: VARIANTS[panel.variant] ?? panel.variant }),
    h("code", { class: "expression", text: panel.text }),
    h("p", { class: "small quiet", text: aboutTile(panel) }),
    figures,
    grid.element,
    bars,
    ...basesOf(panel),
  );
  let numbers: Int32Array = new Int32Array();

  function choose(row: number, column: number): void {
    const number = numbers[row * panel.columns + column];
    app.store.set({ pick: number === undefined || number < 0 || number === app.store.get("pick") ? null : number });
  }

  function draw(): void {
    const shown = app.shownOf(panel);
    numbers = app.numbers(panel);
    const touched = shown === "conflicts" ? app.touched(panel) : null;
    const pick = app.store.get("pick");
    const ground = cssColour("--panel");
    const [quiet, bad, good] = ["--quiet", "--bad", "--good"].map(cssColour);
    const most = shown === "bank" ? app.banks : 0;
    const colourOf = (number: number, element: number): string => {
      if (number < 0) return ground;
      if (!touched) return hue(number, most);
      const waits = touched.get(element);
      return waits === undefined ? ground : waits ? bad : good;
    };
    const colours = Array.from(numbers, colourOf);
    grid.fit(panel.rows, panel.columns, GRID_PX, GRID_PX, LARGEST_CELL_PX);
    const cells = new Uint32Array(grid.cellRows * grid.cellColumns).fill(pixel(ground));
    const framed = new Uint8Array(cells.length);
    const firsts = new Int32Array(cells.length).fill(-1);
    for (let element = numbers.length - 1; element >= 0; element--) {
      const cell = grid.cellOf(Math.floor(element / panel.columns), element % panel.columns);
      cells[cell] = pixel(colours[element]);
      firsts[cell] = element;
      if (pick !== null && numbers[element] === pick) framed[cell] = 1;
    }
    grid.paint(cells, pixel(cssColour("--line")), null, framed, pixel(cssColour("--text")));
    grid.write((cell) => {
      const element = firsts[cell];
      if (element < 0 || numbers[element] < 0) return null;
      return [String(numbers[element]), colours[element] === ground ? quiet : ink(colours[element])];
    });
    grid.label(`${panel.text}: ${shown === "conflicts" ? "bank" : shown} of each of ${panel.rows} × ${panel.columns} elements`);
    figures.textContent = figuresOf();
    drawBanks();
  }

  function figuresOf(): string {
    const access = app.access(panel);
    if (!access) return `${formatPlural(panel.registers, "register")} in each of ${formatPlural(panel.threads, "thread")}`;
    if (!access.is_possible) return `${access.name}: not possible, a row of 16 bytes is not in one piece`;
    const conflicts = access.conflicts ? `${access.ways}-way bank conflicts` : "no bank conflicts";
    return `${access.name}: ${conflicts}, ${formatCount(access.passes)} passes (at best ${formatCount(access.best_passes)}), ${access.vector_bits} bits a lane`;
  }

  function drawBanks(): void {
    const access = app.access(panel);
    bars.hidden = !access?.is_possible;
    if (!access?.is_possible) return;
    const words = wordsPerBank(access, app.wave(panel), app.banks).map((set) => set.size);
    const high = Math.max(1, ...words);
    banks.fit(high, app.banks, GRID_PX, BARS_PX, BARS_CELL_PX);
    const [ground, good, bad] = ["--panel", "--good", "--bad"].map((name) => pixel(cssColour(name)));
    const cells = new Uint32Array(banks.cellRows * banks.cellColumns).fill(ground);
    words.forEach((count, bank) => {
      for (let at = 0; at < count; at++) cells[banks.cellOf(high - 1 - at, bank)] = count > 1 ? bad : good;
    });
    banks.paint(cells, pixel(cssColour("--line")));
    const lanes = (access.waves[app.wave(panel)] ?? []).length;
    const busy = words.filter(Boolean).length;
    wave.textContent = `Wavefront ${app.wave(panel) + 1} of ${formatCount(access.waves.length)}: ${formatPlural(lanes, "lane")} in ${formatPlural(busy, "bank")} of ${app.banks}, ${high} ${high === 1 ? "pass" : "passes"}. Bars: words of each bank.`;
    banks.label(wave.textContent);
  }

  function describe(row: number, column: number): TipText {
    const element = row * panel.columns + column;
    const facts: [string, string][] = [];
    if (panel.offsets) {
      const offset = panel.offsets[element];
      facts.push(
        ["offset", `${offset} elements, byte ${Math.floor((offset * panel.element_bits) / 8)}`],
        ["bank", String(app.bankOf(panel, element))],
      );
      const access = app.access(panel);
      const entry = access ? access.lane.findIndex((_, at) => elementsOf(access, at).includes(element)) : -1;
      if (access && entry >= 0)
        facts.push(["access", `lane ${access.lane[entry]} in instruction ${access.instruction[entry]} of ${access.name}`]);
    }
    for (const holder of (panel.holders[element] ?? []).slice(0, 4)) {
      const thread = Math.floor(holder / panel.registers);
      const warp = Math.floor(thread / panel.warp_lanes);
      facts.push([`thread ${thread}`, `warp ${warp}, lane ${thread % panel.warp_lanes}, register ${holder % panel.registers}`]);
    }
    return { title: `element ${place(element)}`, facts };
  }

  function place(element: number): string {
    const index: number[] = [];
    let rest = element;
    for (const extent of [...panel.shape].reverse()) {
      index.unshift(rest % extent);
      rest = Math.floor(rest / extent);
    }
    return `[${index.join(", ")}]`;
  }

  function describeBank(bank: number): TipText | null {
    const access = app.access(panel);
    if (!access) return null;
    const words = [...(wordsPerBank(access, app.wave(panel), app.banks)[bank] ?? [])];
    return {
      title: `bank ${bank}`,
      lines: [words.length ? `words ${words.slice(0, 8).join(", ")}${words.length > 8 ? " …" : ""}` : "not used"],
    };
  }

  draw();
  return {
    update(changed) {
      if (["theme", "show", "access", "wave", "pick"].some((key) => changed.has(key as "show"))) draw();
    },
  };
}

function aboutTile(panel: Panel): string {
  const size = `${panel.shape.join(" × ")} of ${panel.element}`;
  const where = panel.offsets ? `${formatBytes(panel.size_bytes)} of shared memory` : formatPlural(panel.threads, "thread");
  return [size, where, panel.how].filter(Boolean).join("; ");
}

/** Numbers in hues: neighbours differ; with `most`, a number's hue is its share of the circle. */
function hue(number: number, most: number): string {
  const degrees = most ? (number / most) * 360 : (number * GOLDEN + 210) % 360;
  const dark = isDark();
  const [saturation, light] = dark ? [0.35, 0.3] : [0.65, 0.84 - 0.09 * (number % 2)];
  const channel = (at: number): string => {
    const k = (at + degrees / 30) % 12;
    const value = light - saturation * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${channel(0)}${channel(8)}${channel(4)}`;
}

export function mountPanels(host: HTMLElement, app: App): View {
  const views = app.page.panels.map((panel) => {
    const card = h("section", { class: "card", attrs: { "data-variant": panel.variant } });
    host.append(card);
    return mountPanel(card, app, panel);
  });
  return { update: (changed) => views.forEach((view) => view.update(changed)) };
}

/** The tile as a linear layout: what each bit of an offset, or of a register, lane, warp and block, adds to the element. */
function basesOf({ bases, why_not_linear: whyNot }: Panel): HTMLElement[] {
  const heading = h("h3", { text: "Bases of the linear layout" });
  if (whyNot) return [heading, h("p", { class: "small quiet", text: `Not linear: ${whyNot}.` })];
  const isOffset = bases.every(([name]) => name.startsWith("dim"));
  const vectorText = (vector: number[]): string => (isOffset ? String(vector[0]) : `(${vector.join(", ")})`);
  const rows = bases.map(([name, vectors]) => [
    name,
    vectors.map((vector, bit) => `${2 ** bit} → ${vectorText(vector)}`).join("   ") || "one only",
  ]);
  return [heading, h("div", { class: "scroll bases" }, table(["Input", isOffset ? "Offset" : "Element"], rows))];
}
