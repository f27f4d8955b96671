// What every view shares: the launch, the program and the operation that are shown.
import { Tip } from "../shared/tip";
import type { Events, Launch, ProgramId, Scene } from "./data";
import type { Changed, Store } from "./state";

export interface View {
  update(changed: Changed): void;
}
export type Mount = (host: HTMLElement, app: App) => View;
export type Kind = "load" | "store" | "atomic" | "dot" | "reduce" | "elementwise";

export class App {
  readonly tip = new Tip();
  launch!: Launch;
  /** Numbers of the traced programs in rising order, where each one's events begin, and where the last ones end. */
  traced: number[] = [];
  bytes: number[] = [];
  private starts: number[] = [];
  private rows: Int32Array = new Int32Array();
  private current = -1;

  constructor(
    readonly scene: Scene,
    readonly store: Store,
  ) {
    this.refresh();
  }

  /** After a change of the launch. */
  refresh(): void {
    const last = this.scene.header.launches.length - 1;
    const at = Math.min(last, this.store.get("launch"));
    if (at === this.current) return;
    this.current = at;
    this.launch = this.scene.launch(at);
    this.index(this.launch.events);
  }

  private index(events: Events | null): void {
    this.traced = [];
    this.starts = [];
    this.bytes = [];
    this.rows = new Int32Array();
    if (!events) return;
    const { program } = events;
    this.rows = Int32Array.from(program, (_, row) => row);
    if (program.some((number, row) => row > 0 && number < program[row - 1])) this.rows.sort((a, b) => program[a] - program[b] || a - b);
    for (const [start, row] of this.rows.entries()) {
      if (!start || program[row] !== program[this.rows[start - 1]]) {
        this.traced.push(program[row]);
        this.starts.push(start);
        this.bytes.push(0);
      }
      this.bytes[this.bytes.length - 1] += this.trueBytes(row);
    }
    this.starts.push(this.rows.length);
  }

  /** The program that is shown, as a place among the traced ones; -1 where there is none. */
  get position(): number {
    const chosen = this.store.get("program");
    // Until one is chosen: the first that did something wrong.
    const [fault] = this.launch.faults;
    const position = this.traced.indexOf(chosen !== null ? chosen : fault ? this.numberOf(fault.program) : -1);
    return position < 0 ? Math.min(0, this.traced.length - 1) : position;
  }
  get program(): number {
    return this.traced[this.position] ?? -1;
  }
  ids(program = this.program): ProgramId {
    const [, y, z] = this.launch.grid;
    return [Math.floor(program / (y * z)), Math.floor(program / z) % y, program % z];
  }
  numberOf([x, y, z]: ProgramId): number {
    return (x * this.launch.grid[1] + y) * this.launch.grid[2] + z;
  }
  /** Rows of the events of the program that is shown. */
  get programRows(): Int32Array {
    return this.rowsAt(this.position);
  }
  rowsAt(position: number): Int32Array {
    return position < 0 ? this.rows.subarray(0, 0) : this.rows.subarray(this.starts[position], this.starts[position + 1]);
  }
  /** All rows, program by program. */
  get allRows(): Int32Array {
    return this.rows;
  }
  /** The chosen operation as a place among the program's; -1: all of them. */
  get op(): number {
    const position = this.store.get("op") ?? -1;
    return position < this.programRows.length ? position : -1;
  }
  /** Row of the chosen operation, or -1. */
  get opRow(): number {
    return this.op < 0 ? -1 : this.programRows[this.op];
  }

  /** Rows of the accesses that belong to the chosen operation; null: all of the program. A product has those of its factors. */
  get chosenRows(): Set<number> | null {
    const { opRow } = this;
    if (opRow < 0 || ["reduce", "elementwise"].includes(this.kind(opRow))) return null;
    if (this.kind(opRow) !== "dot") return new Set([opRow]);
    const factors = [0, 1].map((which) => this.factorRow(opRow, which)).filter((row) => row >= 0);
    return factors.length ? new Set(factors) : null;
  }

  /** The last load of a product's first or second factor before it; -1 where its statement does not say. */
  factorRow(row: number, which: number): number {
    const { events, operands } = this.launch;
    const sites = operands[(events as Events).site[row]][which] ?? [];
    const rows = this.programRows;
    for (let position = rows.indexOf(row) - 1; position >= 0; position--) {
      if (sites.includes((events as Events).site[rows[position]]) && this.kind(rows[position]) === "load") return rows[position];
    }
    return -1;
  }

  opName(row: number): string {
    const events = this.launch.events as Events;
    return events.ops[events.op[row]];
  }
  kind(row: number): Kind {
    const name = this.opName(row);
    if (name === "load" || name === "store") return name;
    const kinds: [start: string, kind: Kind][] = [
      ["atomic_", "atomic"],
      ["dot", "dot"],
      ["reduce_", "reduce"],
      ["scan_", "reduce"],
    ];
    return kinds.find(([start]) => name.startsWith(start))?.[1] ?? "elementwise";
  }
  /** Block of an access, or shape of a product, a reduction's input or an elementwise result. */
  shape(row: number): number[] {
    const events = this.launch.events as Events;
    return this.launch.patterns[events.pattern[row]]?.shape ?? events.shapes[events.shape[row]] ?? [];
  }
  activeLanes(row: number): number {
    return this.launch.masks[(this.launch.events as Events).mask[row]]?.active ?? 0;
  }
  lanes(row: number): number {
    return this.launch.patterns[(this.launch.events as Events).pattern[row]]?.lanes ?? 0;
  }
  trueBytes(row: number): number {
    return this.activeLanes(row) * (this.launch.patterns[(this.launch.events as Events).pattern[row]]?.itemsize ?? 0);
  }
  dotFlop(row: number): number {
    return this.kind(row) === "dot" ? 2 * this.shape(row).reduce((total, size) => total * size, 1) : 0;
  }
  line(row: number): number {
    return this.launch.sites[(this.launch.events as Events).site[row]].line;
  }
  tensorName(row: number): string {
    return this.launch.tensors[(this.launch.events as Events).tensor[row]]?.name ?? "";
  }

  /** Moves among the traced programs, or among the operations. */
  step(what: "program" | "op", by: number): void {
    if (what === "program" && this.traced.length) {
      const position = Math.min(this.traced.length - 1, Math.max(0, this.position + by));
      this.store.set({ program: this.traced[position] });
    } else if (what === "op" && this.programRows.length) {
      const position = Math.min(this.programRows.length - 1, Math.max(-1, this.op + by));
      this.store.set({ op: position < 0 ? null : position });
    }
  }
}

export function idText(ids: readonly number[]): string {
  return `(${ids.join(", ")})`;
}
export function sizeText(sizes: readonly number[]): string {
  return sizes.join(" × ") || "one value";
}
