// Made by web/make_types.py from the records of our pages: `make web` writes it, do not edit.

/** The page of a report, a comparison, a Gantt chart, a profile without a timeline or a job of many ranks. */
export interface ReportHeader {
  format: string;
  version: number;
  warplens: string;
  title: string;
  texts: string[];
  source: string;
  mode: string;
  start: string;
  command: string;
  facts: Record<string, string>;
  definitions: Record<string, Record<string, string>>;
  explanations: Record<string, string>;
  findingTargets: (RowTarget | RowsTarget | RangeTarget | StepTarget)[][];
  targets: (RowTarget | RowsTarget | RangeTarget | StepTarget)[][];
  kinds: string[];
  colours: Record<string, string>;
  kindColours: Record<string, string>;
  spareColours: string[];
  scenes: SceneHeader[];
  tables: TableHeader[];
  tiles: Tile[];
  gainsBase: string;
  verdict: string;
  gains: string[];
  parts: StepPart[];
  fixSubsets: FixSubsets | null;
  criticalPath: PathHeader | null;
  corrected: CorrectedHeader | null;
  job: JobHeader | null;
}

/** One row of a table, by its number in the table's own order. */
export interface RowTarget {
  to: "row";
  table: string;
  row: number;
}

/** The rows of a table that have this value in this column. */
export interface RowsTarget {
  to: "rows";
  table: string;
  column: string;
  value: string;
}

/** A range of time, in ns since the start of the trace. */
export interface RangeTarget {
  to: "range";
  start_ns: number;
  end_ns: number;
}

/** One step, by its number. */
export interface StepTarget {
  to: "step";
  step: number;
}

/** The events of one trace. */
export interface SceneHeader {
  label: string;
  device: string;
  events: number;
  leftOut: LeftOut;
  lanes: LaneHeader[];
  steps: StepMark[];
  columns: Record<string, ColumnSpec>;
  labels: Labels;
  specs: number[][];
  geometries: [string, string, number, number, number][];
  copies: Copies;
  members: Members;
}

/** Host events that are not on the page. */
export interface LeftOut {
  events: number;
  shorterThanNs: number;
}

/** A thread or stream, and its rows of events. */
export interface LaneHeader {
  first: number;
  events: number;
  gpu: boolean;
  untimed?: boolean;
  process: string;
  thread: string;
  process_name: string;
  thread_name: string;
}

/** A step on the host, in ns. */
export interface StepMark {
  step: number;
  name: string;
  start: number;
  end: number;
}

/** Where a column of numbers is among the bytes, and how it is read. */
export interface ColumnSpec {
  at: number;
  rows: number;
  width: number;
  delta?: boolean;
  scale?: number;
  float?: boolean;
  single?: boolean;
  text?: boolean;
  bool?: boolean;
  nulls?: ColumnSpec | null;
}

/** Per pair of name and kind: number of the name, the kind, the short name and the category; -1 for none. */
export interface Labels {
  name: number[];
  kind: number[];
  short: number[];
  category: number[];
}

/** Rows of the copies, and their sizes. */
export interface Copies {
  row: ColumnSpec;
  bytes: ColumnSpec;
}

/** Per GPU event its group, and per table the row of each group. */
export interface Members {
  group: ColumnSpec;
  rows: Record<string, ColumnSpec>;
}

/** A table. With an `order`, rows are stored in another one: sort by these columns, descending where true. */
export interface TableHeader {
  name: string;
  meaning: string;
  notes: string[];
  rows: number;
  order?: [string, boolean][];
  columns: ColumnHeader[];
}

/** A column of a table. With an `expected` sum of other columns, `data` is what the values differ by from that. */
export interface ColumnHeader {
  name: string;
  unit: string;
  meaning: string;
  data: ColumnSpec;
  expected?: Record<string, number>;
}

/** A number at the head of the page. */
export interface Tile {
  label: string;
  value: string;
  note: string;
  meaning: string;
  table: string;
}

/** A part of one step, as the page's head draws it. */
export interface StepPart {
  name: string;
  category: string;
  time: string;
  percent: number;
  place: string;
}

/** Gains do not add up, so each subset has a time of its own: a table that a page can look up. */
export interface FixSubsets {
  rows: number[];
  out_of: number;
  step_ms: number[];
  fast_ms: number[];
  slow_ms: number[];
  unchanged_ms: [number, number];
  share_of_gain: number;
  share_of_step: number;
}

/** The critical path of the only scene, segment by segment: one after the other in the simulated run. */
export interface PathHeader {
  kinds: Record<string, string>;
  columns: PathColumn[];
  start: number;
  kind: ColumnSpec;
  row: ColumnSpec;
  pause: ColumnSpec;
  recorded: ColumnSpec;
  cost: ColumnSpec;
}

/** A column of the table `critical_path`. */
export interface PathColumn {
  name: string;
  unit: string;
  meaning: string;
}

/** The only scene with corrected times. */
export interface CorrectedHeader {
  scene: SceneHeader;
  criticalPath: PathHeader | null;
}

/** The timelines of many ranks. Times are in ns since the job's first event. */
export interface JobHeader {
  ranks: number;
  drawn: DrawnRankHeader[];
  calls: Record<string, ColumnSpec>;
  compute: Record<string, ColumnSpec>;
  steps: Record<string, ColumnSpec>;
}

/** A rank with a timeline: its rows among those of all ranks, which are in order of rank and start. */
export interface DrawnRankHeader {
  rank: number;
  host: string;
  stage: number;
  why: string;
  calls: number;
  computes: number;
  steps: number;
}

/** The page of traced launches. */
export interface KernelHeader {
  format: string;
  version: number;
  warplens: string;
  title: string;
  texts: string[];
  triton: string;
  mode: string;
  sampling: string;
  notes: string[];
  fault_kinds: Record<string, string>;
  launches: PackedLaunch[];
}

/** A launch. */
export interface PackedLaunch {
  index: number;
  kernel: string;
  file: string;
  line: number;
  grid: [number, number, number];
  traced_programs: number;
  constants: [string, string][];
  sites: Site[];
  accesses: AccessTotals[];
  reuse: Reuse[];
  faults: Fault[];
  called_from: string;
  totals: Record<string, number | null>;
  operands: number[][][];
  sources: SceneSource[];
  tensors: PackedTensor[];
  patterns: PackedPattern[];
  masks: PackedMask[];
  events: PackedEvents | null;
  numbers: NumberError[];
  notes: string[];
}

/** A statement of the kernel; `path` leads from the kernel's own line to this one, through device functions. */
export interface Site {
  file: string;
  line: number;
  function: string;
  statement: string;
  path: [string, number, string][];
}

/** What one statement did to one tensor in one launch; `tensor` is -1 for what only computes. */
export interface AccessTotals {
  site: number;
  op: string;
  tensor: number;
  accesses: number;
  lanes: number;
  active_lanes: number;
  attempted_bytes: number;
  true_bytes: number;
  sectors: number;
  minimum_sectors: number;
  flop: number;
}

/** How the memory of one storage was used; the names are the arguments that share it. */
export interface Reuse {
  tensors: string[];
  read_bytes: number;
  written_bytes: number;
  unique_bytes: number;
  shared_bytes: number;
}

/** One mistake of one statement, at its first occurrence; `elements` and `programs` say how often it happened. */
export interface Fault {
  kind: string;
  site: number;
  op: string;
  tensor: string;
  program: [number, number, number];
  index: number;
  lane: number[];
  message: string;
  elements: number;
  programs: number;
  other_program: [number, number, number] | null;
  other_site: number | null;
  place: number[];
  remedy: string;
}

/** The text of one function of the kernel, from `line` on. */
export interface SceneSource {
  file: string;
  line: number;
  text: string[];
}

/** A tensor with its values before and after the launch. */
export interface PackedTensor {
  name: string;
  dtype: string;
  shape: number[];
  strides: number[];
  offset: number;
  storage: number;
  storage_bytes: number;
  itemsize: number;
  written: boolean;
  before: ColumnSpec | null;
  after: ColumnSpec | null;
}

/** A pattern of offsets. */
export interface PackedPattern {
  itemsize: number;
  shape: number[];
  strides: number[] | null;
  offsets: ColumnSpec | null;
}

/** A mask of lanes. */
export interface PackedMask {
  shape: number[];
  active: number;
  bits: ColumnSpec | null;
  box: [number, number][] | null;
}

/** The operations of a launch. */
export interface PackedEvents {
  ops: string[];
  shapes: number[][];
  columns: Record<string, ColumnSpec>;
  values: (ColumnSpec | null)[];
}

/** How far the elements that a launch wrote to one tensor are from an fp64 shadow that ran beside it. */
export interface NumberError {
  tensor: string;
  dtype: string;
  elements: number;
  largest_ulps: number;
  median_ulps: number;
  judged_dtype: string;
  judged_ulps: number;
  place: number[];
  value: number;
  shadow: number;
  site: number;
  growth_percent: number;
}

/** The page of compiled kernels. */
export interface CodeHeader {
  format: string;
  version: number;
  warplens: string;
  title: string;
  texts: string[];
  notes: string[];
  checks: PackedCheck[];
}

/** A compilation with its texts. */
export interface PackedCheck {
  kernel: string;
  target: string;
  config: string;
  signature: string;
  compiler: string;
  language: string;
  seconds: number;
  files: string[];
  facts: CodeFact[];
  sources: CodeSource[];
  chains: CodePlace[][];
  lines: CodeLine[];
  texts: PackedText[];
  suggestions: CodeSuggestion[];
  remarks: CodeRemark[];
  launches: number;
  failure: string;
  failure_place: CodePlace | null;
  notes: string[];
}

/** A figure of the whole kernel. */
export interface CodeFact {
  name: string;
  value: string;
  meaning: string;
  is_bad: boolean;
}

/** A function of the user's source, from `line` on. */
export interface CodeSource {
  file: number;
  line: number;
  name: string;
  text: string[];
}

/** A line of a file, which is numbered by `CodeCheck.files`; column 0 where it is not known. */
export interface CodePlace {
  file: number;
  line: number;
  column: number;
}

/** What is known of one line of the source. Machine instructions are its own and those of what it calls. */
export interface CodeLine {
  place: CodePlace;
  instructions: number;
  in_loops: number;
  called_instructions: number;
  classes: [string, number][];
  marks: CodeMark[];
  details: string[];
  sample_percent: number | null;
  waits: [string, number][];
}

/** A few characters beside a line of the source, such as "ld 128". */
export interface CodeMark {
  text: string;
  meaning: string;
  is_bad: boolean;
}

/** One text of a compilation. */
export interface PackedText {
  kind: string;
  text: number;
  chains: ColumnSpec;
  bookkeeping: ColumnSpec;
}

/**  */
export interface CodeSuggestion {
  code: string;
  title: string;
  place: CodePlace | null;
  evidence: string;
  advice: string;
  change: string;
  effect: [string, string, string, string][];
  stake: string;
}

/** The compiler's own words on a line. */
export interface CodeRemark {
  severity: string;
  place: CodePlace | null;
  text: string;
  notes: string[];
  count: number;
}

/** The page of layouts. */
export interface LayoutHeader {
  format: string;
  version: number;
  warplens: string;
  title: string;
  texts: string[];
  banks: number;
  notes: string[];
  panels: PackedLayoutPanel[];
}

/** A tile with its elements' places in memory, or with what threads hold. */
export interface PackedLayoutPanel {
  variant: string;
  text: string;
  how: string;
  shape: number[];
  rows: number;
  columns: number;
  element: string;
  element_bits: number;
  size_bytes: number;
  threads: number;
  warp_lanes: number;
  bases: [string, number[][]][];
  why_not_linear: string;
  offsets: ColumnSpec | null;
  held: ColumnSpec | null;
  accesses: PackedLayoutAccess[];
}

/** An access: an entry of `lanes` for every lane of every instruction. */
export interface PackedLayoutAccess {
  name: string;
  meaning: string;
  is_possible: boolean;
  ways: number;
  conflicts: number;
  passes: number;
  best_passes: number;
  vector: number;
  vector_bits: number;
  instructions: number;
  lanes: Record<string, ColumnSpec>;
  cells: ColumnSpec;
}
