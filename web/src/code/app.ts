// What every view shares: the compilation that is shown, the line of Python that is chosen or pointed at.
import { fileName, type Check, type Page } from "./data";
import type { CodePlace } from "../shared/generated/records";
import type { Listing } from "./listing";
import type { Changed, Store } from "./state";

export interface View {
  update(changed: Changed): void;
}
const TITLES: Record<string, string> = {
  python: "Python",
  ttir: "TTIR",
  ttgir: "TTGIR",
  llir: "LLIR",
  ptx: "PTX",
  sass: "SASS",
  amdgcn: "AMDGCN",
};
const MEANINGS: Record<string, string> = {
  ttir: "Triton's own IR: tiles, before layouts are chosen",
  ttgir: "Triton's GPU IR: layouts, shared memory, asynchronous copies, matrix instructions",
  llir: "LLVM IR of one thread",
  ptx: "NVIDIA's virtual assembly",
  sass: "NVIDIA's machine code, as it is run",
  amdgcn: "AMD's machine code, as it is run",
};
const LANGUAGES: Record<string, string> = { triton: "Python", cuda: "CUDA C++" };
export const MOST_STAGES = 3;
const ROOMY_PX = 1100; // below, two columns are what one can read
const HUE_STEP = 137.5; // of 360: neighbours differ, and it is long before two are alike
export const title = (kind: string): string => TITLES[kind] ?? kind.toUpperCase();
export const meaning = (kind: string): string => MEANINGS[kind] ?? "";

export class App {
  check!: Check;
  /** Line of Python under the pointer, -1 for none; what is drawn because of it asks `active`. */
  private hovered = -1;
  /** Column, from 1, of the expression that the row under the pointer comes from; 0 for none. */
  column = 0;
  private hues: (number | null)[] = [];
  private current = -1;
  private readonly watchers: (() => void)[] = [];
  /** The pane that was used last: keys that are meant for a text go there. */
  lastPane = "";

  constructor(
    readonly page: Page,
    readonly store: Store,
  ) {
    this.refresh();
  }

  /** After a change of the compilation. */
  refresh(): void {
    if (this.checkNumber === this.current) return;
    this.current = this.checkNumber;
    this.check = this.page.check(this.checkNumber);
    this.hovered = -1;
    this.column = 0;
    const linked = new Set<number>();
    for (const ids of this.check.chainLines) for (const id of ids) linked.add(id);
    let number = 0;
    this.hues = this.check.python.map(({ id }) => (linked.has(id) ? Math.round((number++ * HUE_STEP + 210) % 360) : null));
  }

  get checkNumber(): number {
    const last = this.page.header.checks.length - 1;
    return Math.min(last, this.store.get("check"));
  }
  /** The line of Python that was chosen, -1 for none. */
  get line(): number {
    const place = this.store.get("line");
    return place ? this.check.idOf(place.file, place.line) : -1;
  }
  /** The line that is shown as linked: the one pointed at, else the chosen one. */
  get active(): number {
    return this.hovered >= 0 ? this.hovered : this.line;
  }
  /** Colour of a line of Python, null for one that nothing comes from. */
  hue(id: number): number | null {
    return this.hues[id] ?? null;
  }
  get raw(): boolean {
    return this.store.get("raw");
  }

  choose(id: number): void {
    const line = this.check.python[id];
    this.store.set({ line: line ? { file: line.file, line: line.line } : null });
  }
  /** `chain` says which column of it, where a text knows. */
  hover(id: number, chain?: CodePlace[]): void {
    if (this.hue(id) === null) id = -1; // nothing comes from it: the chosen line stays lit
    const line = this.check.python[id];
    const column = (line && chain?.find((place) => place.file === line.file && place.line === line.line)?.column) ?? 0;
    if (id === this.hovered && column === this.column) return;
    this.hovered = id;
    this.column = column;
    for (const watcher of this.watchers) watcher();
  }
  /** Called when the pointer moves to another line. */
  watch(watcher: () => void): void {
    this.watchers.push(watcher);
  }

  /** The next line of Python, down or up, that has something to show. */
  step(by: 1 | -1): void {
    const { python } = this.check;
    const hasCode = (id: number): boolean => this.hue(id) !== null || python[id].suggestions.length > 0;
    let id = this.line < 0 ? (by > 0 ? 0 : python.length - 1) : this.line + by;
    while (id >= 0 && id < python.length && !hasCode(id)) id += by;
    if (id >= 0 && id < python.length) this.choose(id);
  }

  /** What the source is written in. */
  get language(): string {
    return LANGUAGES[this.check.plain.language] ?? "Source";
  }

  /** Kinds of the texts beside the source. */
  get stages(): string[] {
    const { kinds } = this.check;
    const machine = kinds.at(-1);
    const requested = this.store.get("stages") ?? (innerWidth > ROOMY_PX ? ["ttgir", "machine"] : ["machine"]);
    const resolved = requested.map((kind) => (kinds.includes(kind) ? kind : kind === "machine" || machineKind(kind) ? machine : undefined));
    const available = new Set(resolved.filter((kind): kind is string => kind !== undefined));
    return kinds.filter((kind) => available.has(kind));
  }
  toggleStage(kind: string): void {
    const order = this.store.get("stages")?.filter((stage) => this.stages.includes(stage)) ?? this.stages;
    const stages = order.includes(kind) ? order.filter((stage) => stage !== kind) : [...order, kind].slice(-MOST_STAGES);
    this.store.set({ stages, sizes: [] });
  }
  listing(kind: string): Listing | null {
    return this.check.listing(kind, this.raw);
  }

  placeText({ file, line, column }: CodePlace): string {
    return `${fileName(this.check.plain.files[file] ?? "")}:${line}${column ? `:${column}` : ""}`;
  }
}

function machineKind(kind: string): boolean {
  return kind === "sass" || kind === "amdgcn" || kind === "ptx";
}
