// What every view shares: the access and the wavefront that are shown, and the number of each element.
import { Tip } from "../shared/tip";
import { elementsOf, wordsOf, wordsPerBank, WORD_BYTES, type Access, type Page, type Panel } from "./data";
import type { Changed, Shown, Store } from "./state";

export interface View {
  update(changed: Changed): void;
}
export const IN_MEMORY: readonly Shown[] = ["bank", "conflicts", "offset", "lane", "warp", "thread"];
export const OVER_THREADS: readonly Shown[] = ["thread", "warp", "lane", "register"];
const NONE = -1;

export class App {
  readonly tip = new Tip();

  constructor(
    readonly page: Page,
    readonly store: Store,
  ) {}

  get banks(): number {
    return this.page.header.banks;
  }
  /** What one tile is numbered by: the choice, where the tile has it. */
  shownOf(panel: Panel): Shown {
    const known = panel.offsets ? IN_MEMORY : OVER_THREADS;
    const wanted = this.store.get("show");
    return known.includes(wanted) ? wanted : known[0];
  }
  /** All that some tile can be numbered by. */
  get choices(): Shown[] {
    const { panels } = this.page;
    const all = [...(panels.some((panel) => panel.offsets) ? IN_MEMORY : []), ...(panels.some((panel) => panel.held) ? OVER_THREADS : [])];
    return [...new Set(all)];
  }
  get accessNames(): string[] {
    return (this.page.panels.find((panel) => panel.accesses.length)?.accesses ?? []).map((access) => access.name);
  }
  access(panel: Panel): Access | null {
    return panel.accesses[Math.min(this.store.get("access"), panel.accesses.length - 1)] ?? null;
  }
  wave(panel: Panel): number {
    return Math.max(0, Math.min(this.store.get("wave"), (this.access(panel)?.waves.length ?? 1) - 1));
  }
  get mostWaves(): number {
    return Math.max(1, ...this.page.panels.map((panel) => this.access(panel)?.waves.length ?? 0));
  }
  bankOf(panel: Panel, element: number): number {
    return Math.floor(((panel.offsets as Int32Array)[element] * panel.element_bits) / 8 / WORD_BYTES) % this.banks;
  }

  /** The number that each element shows; -1 for none. */
  numbers(panel: Panel): Int32Array {
    const shown = this.shownOf(panel);
    const elements = panel.rows * panel.columns;
    if (panel.held) return Int32Array.from({ length: elements }, (_, at) => this.holderNumber(panel, shown, panel.holders[at]?.[0]));
    if (shown === "bank" || shown === "conflicts") return Int32Array.from(panel.offsets as Int32Array, (_, at) => this.bankOf(panel, at));
    if (shown === "offset") return panel.offsets as Int32Array;
    const numbers = new Int32Array(elements).fill(NONE);
    const access = this.access(panel);
    if (!access) return numbers;
    for (const entry of access.lane.keys()) {
      const lane = access.lane[entry];
      const number = shown === "warp" ? access.warp[entry] : shown === "thread" ? access.warp[entry] * 32 + lane : lane;
      for (const element of elementsOf(access, entry)) if (element >= 0) numbers[element] = number;
    }
    return numbers;
  }

  private holderNumber(panel: Panel, shown: Shown, holder: number | undefined): number {
    if (holder === undefined) return NONE;
    const thread = Math.floor(holder / panel.registers);
    if (shown === "register") return holder % panel.registers;
    if (shown === "warp") return Math.floor(thread / panel.warp_lanes);
    return shown === "lane" ? thread % panel.warp_lanes : thread;
  }

  /** Elements that the wavefront that is shown touches: true where the bank must serve other words, too. */
  touched(panel: Panel): Map<number, boolean> {
    const touched = new Map<number, boolean>();
    const access = this.access(panel);
    if (!access) return touched;
    const perBank = wordsPerBank(access, this.wave(panel), this.banks);
    for (const entry of access.waves[this.wave(panel)] ?? []) {
      const waits = wordsOf(access, entry).some((word) => perBank[word % this.banks].size > 1);
      for (const element of elementsOf(access, entry)) touched.set(element, waits);
    }
    return touched;
  }
}
