// What the reader of compiled code has chosen. Keys and spellings are those of every link ever shared: they stay.
import { count, flag, numbers, text } from "../shared/codecs";
import { Store as AnyStore, type Codec, type KeyOf, type StateOf } from "../shared/store";
import { theme } from "../shared/theme";

export interface LinePlace {
  file: number;
  line: number;
}

/** Kinds of texts with dots between them; "" is null, the usual ones, and "none" is none. */
const stages: Codec<readonly string[] | null> = {
  initial: null,
  read: (value) => (value ? value.split(".").filter((kind) => kind !== "none") : null),
  write: (value) => (value ? value.join(".") || "none" : ""),
};

/** Number of its file, dot, line. */
const line: Codec<LinePlace | null> = {
  initial: null,
  read: (value) => {
    const match = /^(\d+)\.(\d+)$/.exec(value);
    return match ? { file: Number(match[1]), line: Number(match[2]) } : null;
  },
  write: (value) => (value ? `${value.file}.${value.line}` : ""),
};

export const CODECS = {
  theme,
  check: count(0), // place among the compilations of the page
  stages, // texts beside the Python
  tab: text("python"), // what a narrow window shows: python or the kind of a text
  line, // the chosen line of Python
  raw: flag(), // with debug information
  sizes: numbers("."), // widths of the columns, in thousandths
  facts: flag("0"), // what is known of the line is folded away
};
export type State = StateOf<typeof CODECS>;
export type Key = KeyOf<typeof CODECS>;
export type Changed = ReadonlySet<Key>;

export class Store extends AnyStore<typeof CODECS> {
  constructor() {
    super(CODECS);
  }
}
