// What a program does to one tensor: which of its operations touch it, where, and through which argument.
import type { Fact } from "../shared/tip";
import type { App } from "./app";
import type { Events, Numbers, Tensor } from "./data";
import { eachLane, inside, reach, type Visit } from "./lanes";
import { mappingOf, wholeOf } from "./mapping";

const MOST_BEYOND = 0.5; // of the tensor's size, drawn beyond its edge

/** What the program does to the tensor, in numbers. */
export interface Touch {
  low: number[];
  high: number[]; // of active lanes; empty where there are none
  loaded: number;
  stored: number;
  atomic: number;
  masked: number;
  outside: number; // active, in the memory of another tensor or in a gap
}

export class TensorUse {
  constructor(
    private readonly app: App,
    private readonly number: number,
  ) {}

  private get tensor(): Tensor {
    return this.app.launch.tensors[this.number];
  }

  /** Rows of the events of the program that touch this tensor, through this argument or one that shares its memory. */
  rows(): number[] {
    const { launch } = this.app;
    const events = launch.events;
    if (!events) return [];
    return Array.from(this.app.programRows).filter((row) => {
      if (this.isOwn(row)) return true;
      if (launch.tensors[events.tensor[row]]?.storage !== this.tensor.storage) return false;
      let touches = false;
      this.each(row, () => (touches = true));
      return touches;
    });
  }

  private isOwn(row: number): boolean {
    return (this.app.launch.events as Events).tensor[row] === this.number;
  }

  /** Lanes of an event. Of one through another argument only those that touch this tensor: the rest is that one's. */
  each(row: number, visit: Visit): void {
    const { app, tensor } = this;
    const own = this.isOwn(row);
    eachLane(app.launch, row, tensor, own ? visit : (lane, index, active) => active && inside(tensor, index) && visit(lane, index, active));
  }

  /** How far masked lanes of any program reach beyond the last row and column, so that the map has room for them. */
  overrun(): [number, number] {
    const { tensor, app } = this;
    const mapping = mappingOf(tensor, null);
    const whole = wholeOf(tensor, mapping);
    let [rows, columns] = [0, 0];
    const events = app.launch.events;
    if (!events) return [0, 0];
    for (let row = 0; row < events.program.length; row++) {
      if (events.tensor[row] !== this.number) continue;
      const last = reach(app.launch, row, tensor);
      if (!last) continue;
      rows = Math.max(rows, (mapping.row < 0 ? Math.floor(last[mapping.column] / mapping.width) : last[mapping.row]) + 1 - whole.rows);
      if (mapping.row >= 0) columns = Math.max(columns, last[mapping.column] + 1 - whole.columns);
    }
    const most = (size: number): number => Math.max(16, Math.ceil(MOST_BEYOND * size));
    return [Math.min(rows, most(whole.rows)), Math.min(columns, most(whole.columns))];
  }

  touchOf(rows: number[]): Touch {
    const touch: Touch = { low: [], high: [], loaded: 0, stored: 0, atomic: 0, masked: 0, outside: 0 };
    for (const row of rows) {
      const kind = this.app.kind(row);
      this.each(row, (_, index, active) => {
        if (!active) return void touch.masked++;
        if (!inside(this.tensor, index)) return void touch.outside++;
        if (kind === "load") touch.loaded++;
        else if (kind === "store") touch.stored++;
        else touch.atomic++;
        if (!touch.low.length) {
          touch.low = Array.from(index);
          touch.high = Array.from(index);
        }
        for (let dim = 0; dim < index.length; dim++) {
          if (index[dim] < touch.low[dim]) touch.low[dim] = index[dim];
          if (index[dim] > touch.high[dim]) touch.high[dim] = index[dim];
        }
      });
    }
    return touch;
  }

  /** Whether the statement reached outside this tensor: the tracer drops such lanes as if they were masked. */
  isFaulty(row: number): boolean {
    const events = this.app.launch.events as Events;
    return this.app.launch.faults.some(
      (fault) => fault.kind === "out_of_bounds" && fault.site === events.site[row] && fault.tensor === this.app.tensorName(row),
    );
  }

  /** The program's operations with this element, and the value each one loaded or stored there. */
  touchedBy(index: Int32Array): Fact[] {
    const { app, tensor } = this;
    const facts: Fact[] = [];
    const events = app.launch.events as Events;
    for (const [number, row] of app.programRows.entries()) {
      if (app.launch.tensors[events.tensor[row]]?.storage !== tensor.storage) continue;
      let description = "";
      let isActive = false;
      let values: Numbers | null | undefined;
      this.each(row, (lane, at, active) => {
        if (isActive) return;
        for (let dim = 0; dim < at.length; dim++) if (at[dim] !== index[dim]) return;
        isActive = active;
        values ??= app.launch.value(events.value[row]);
        const value = active && values && lane < values.length ? `: ${numberText(values[lane])}` : "";
        const dropped = this.isFaulty(row) && !inside(tensor, index) ? "masked or out of bounds" : "masked";
        description = `${active ? "" : `${dropped}, `}lane ${lane}${value}`;
      });
      if (description) facts.push([`${number} ${app.opName(row)}, line ${app.line(row)}`, description]);
    }
    return facts;
  }
}

export function numberText(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const size = Math.abs(value);
  return Number.isFinite(value)
    ? size >= 1e-4 && size < 1e7
      ? String(Number(value.toPrecision(7)))
      : value.toExponential(5)
    : String(value);
}
