// What the reader of a report has chosen. Keys and spellings are those of every link ever shared: they stay.
import { flag, oneOf, numbers, position, range, text, texts } from "../shared/codecs";
import { Store as AnyStore, type Codec, type KeyOf, type StateOf } from "../shared/store";
import { theme } from "../shared/theme";
import { GROUPINGS } from "./data/groupings";

export interface EventPlace {
  scene: number;
  row: number;
}
/** A lane of the timeline that was opened or closed by hand. */
export interface LaneSwitch {
  key: string;
  open: boolean;
}
/** A note on an event of the timeline, or on a view of it. */
export interface Note {
  from: number;
  to: number;
  event: EventPlace | null;
  text: string;
}
export interface Sort {
  column: string;
  descending: boolean;
}
/** The frame that fills the flame graph, by names from the root down, and the stretch of it, from 0 to 1. */
export interface ZoomPath {
  /** `twin`: which of the siblings of this name. */
  names: readonly { name: string; twin: number }[];
  span: readonly [number, number] | null;
}

/** "scene:row" */
const event: Codec<EventPlace | null> = {
  initial: null,
  read: (value) => {
    const match = /^(\d+):(\d+)$/.exec(value);
    return match ? { scene: Number(match[1]), row: Number(match[2]) } : null;
  },
  write: (value) => (value ? `${value.scene}:${value.row}` : ""),
};

/** "+3,-0" */
const lanes: Codec<readonly LaneSwitch[]> = {
  initial: [],
  read: (value) =>
    value
      .split(",")
      .filter((part) => part.startsWith("+") || part.startsWith("-"))
      .map((part) => ({ key: part.slice(1), open: part.startsWith("+") })),
  write: (value) => value.map(({ key, open }) => `${open ? "+" : "-"}${key}`).join(","),
};

/** "memory_timeline.0:12000": a counter's track and a moment in ns. */
const moment: Codec<{ key: string; time: number } | null> = {
  initial: null,
  read: (value) => {
    const match = /^([\w.]+):(-?\d+)$/.exec(value);
    return match ? { key: match[1], time: Number(match[2]) } : null;
  },
  write: (value) => (value ? `${value.key}:${value.time}` : ""),
};

/** "100-900@0:42~the slow one|…": what was in view, the event if one was selected, and the words. */
const notes: Codec<readonly Note[]> = {
  initial: [],
  read: (value) =>
    value.split("|").flatMap((part) => {
      const match = /^(-?\d+)-(-?\d+)(?:@(\d+):(\d+))?~(.*)$/.exec(part);
      if (!match || Number(match[1]) >= Number(match[2])) return [];
      const place = match[3] ? { scene: Number(match[3]), row: Number(match[4]) } : null;
      return [{ from: Number(match[1]), to: Number(match[2]), event: place, text: plainText(match[5]) }];
    }),
  write: (value) =>
    value
      .map(
        ({ from, to, event: place, text: words }) =>
          `${from}-${to}${place ? `@${place.scene}:${place.row}` : ""}~${encodeURIComponent(words)}`,
      )
      .join("|"),
};

function plainText(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // a link that was cut short
  }
}

/** "-total_us" is descending, "op" ascending. */
const sort: Codec<Sort | null> = {
  initial: null,
  read: (value) => (value ? { column: value.replace(/^-/, ""), descending: value.startsWith("-") } : null),
  write: (value) => (value ? `${value.descending ? "-" : ""}${value.column}` : ""),
};

const LEVEL = "\u0001";
const TWIN = "\u0002";
const SPAN = "\u0003";
const zoom: Codec<ZoomPath> = {
  initial: { names: [], span: null },
  read: (value) => {
    const [path, span] = value.split(SPAN);
    const names = (path ? path.split(LEVEL) : []).map((part) => {
      const [name, twin] = part.split(TWIN);
      return { name, twin: Number(twin ?? 0) || 0 };
    });
    const edges = /^([\d.e-]+?)-([\d.]+(?:e-\d+)?)$/.exec(span ?? "");
    return { names, span: edges ? [Number(edges[1]), Number(edges[2])] : null };
  },
  write: ({ names, span }) =>
    names.map(({ name, twin }) => name + (twin ? TWIN + twin : "")).join(LEVEL) +
    (span ? SPAN + span.map((edge) => edge.toPrecision(10)).join("-") : ""),
};

export const CODECS = {
  theme,
  steps: numbers(","), // chosen steps; none: all
  range: range(), // chosen range of time in ns
  view: range(), // what the timeline shows, in ns since its origin; null: everything
  event, // event whose details are shown
  hide: texts("|"), // categories switched off
  colour: oneOf(["category", "kernel"]), // timeline
  path: flag(), // timeline: the critical path over it
  times: oneOf(["recorded", "corrected"]), // timeline: as recorded, or as they nearly were without the profiler
  lanes, // lanes opened or closed by hand
  pins: lanes, // tracks pinned or unpinned by hand
  offlanes: texts(","), // tracks that are hidden
  laneorder: texts(","), // all tracks, where one was moved
  notes, // on the timeline
  moment, // of a counter's track, whose parts are shown
  fixes: numbers(","), // findings that are taken as mended, by their row
  table: text(), // which table is shown
  sort, // its order; null: its own
  filter: text(), // its filter
  row: position(), // its selected row, by place in the table's own order
  weight: text("gpu"), // flame graph: gpu or cpu; of two profiles a, b or delta; without a timeline a column of the tree
  order: oneOf(["left", "time", "inverted"]), // flame graph; left: heaviest first
  context: oneOf(["", "python", "module", "op", "annotation"]), // flame graph: which callers; "": the best that the trace has
  zoom, // flame graph
  q: text(), // what is searched for, everywhere
  call: position(), // job: the communication kernel whose details are shown
  rank: position(), // job: the rank that the heat map led to
  ranks: text(), // job: which ranks the timeline shows
  rankorder: oneOf(["rank", "wait"]), // job: their order
  heat: oneOf(["own", "step", "compute", "wait", "exposed", "idle"]), // job: what the heat map shows
  pipestep: position(), // job: the step that the pipeline chart shows
  stepa: position(), // the steps that are compared; null: the middle one by time of those that a next one ends …
  stepb: position(), // … and the slowest
  stepby: oneOf(GROUPINGS), // by what
  at: text(), // the section that a link or a jump leads to
};
export type State = StateOf<typeof CODECS>;
export type Key = KeyOf<typeof CODECS>;
export type Changed = ReadonlySet<Key>;

export class Store extends AnyStore<typeof CODECS> {
  constructor(start = "") {
    super(CODECS, start);
  }
}
