// What the header of the page's data holds; written by outputs/html/.
import type { Spec } from "../../shared/blocks";

export interface Header {
  format: string;
  version: number;
  warplens: string;
  title: string;
  source: string;
  mode: "report" | "diff" | "gantt" | "paths";
  start: string;
  command: string;
  facts: Record<string, string>;
  definitions: Record<string, Record<string, string>>;
  explanations: Record<string, string>;
  /** Per row of the tables `findings` and `evidence`: what it points at, the most telling first. */
  findingTargets: PointedAt[][];
  targets: PointedAt[][];
  kinds: string[];
  colours: Record<string, string>;
  kindColours: Record<string, string>;
  spareColours: string[];
  scenes: SceneHeader[];
  tables: TableHeader[];
  texts: string[];
}

/** What a finding points at; an event by its row on the page. */
export type PointedAt =
  | { to: "row"; table: string; row: number }
  | { to: "rows"; table: string; column: string; value: string }
  | { to: "event"; event: number }
  | { to: "range"; start_ns: number; end_ns: number }
  | { to: "step"; step: number };

export interface SceneHeader {
  label: string;
  device: string;
  events: number;
  leftOut: { events: number; shorterThanNs: number };
  lanes: LaneHeader[];
  steps: StepMark[];
  columns: Record<string, Spec>;
  labels: { name: number[]; kind: number[]; short: number[]; category: number[] };
  specs: number[][];
  geometries: [grid: string, block: string, registers: number, sharedBytes: number, occupancyPercent: number][];
  copies: { row: Spec; bytes: Spec };
  members: { group: Spec; rows: Record<string, Spec> };
}

export interface LaneHeader {
  first: number;
  events: number;
  gpu: boolean;
  /** Holds recorded callers, of which nobody knows when they ran: no part of the timeline. */
  untimed?: boolean;
  process: string;
  thread: string;
  process_name: string;
  thread_name: string;
}

export interface StepMark {
  step: number;
  name: string;
  start: number;
  end: number;
}

export interface TableHeader {
  name: string;
  meaning: string;
  notes: string[];
  rows: number;
  order?: [column: string, descending: boolean][];
  columns: { name: string; unit: string; meaning: string; data: Spec }[];
}
