// The data of the page as outputs/html/code_page.py packs it; the texts of a compilation are read when it is shown.
import { readInts, unpack, type Spec } from "../shared/blocks";
import { Listing } from "./listing";

export interface Place {
  file: number;
  line: number;
  column: number;
}
export interface Source {
  file: number;
  line: number;
  name: string;
  text: string[];
}
export interface Mark {
  text: string;
  meaning: string;
  is_bad: boolean;
}
export interface LineFacts {
  place: Place;
  instructions: number;
  in_loops: number;
  called_instructions: number;
  classes: [name: string, count: number][];
  marks: Mark[];
  details: string[];
  sample_percent: number | null;
  waits: [reason: string, percent: number][];
}
export interface Suggestion {
  code: string;
  title: string;
  place: Place | null;
  evidence: string;
  advice: string;
  change: string;
  effect: [measure: string, before: string, after: string, verdict: string][];
  stake: string;
}
export interface Remark {
  severity: string;
  place: Place | null;
  text: string;
  notes: string[];
  count: number;
}
export interface Fact {
  name: string;
  value: string;
  meaning: string;
  is_bad: boolean;
}
interface PackedText {
  kind: string;
  text: number;
  chains: Spec;
  bookkeeping: Spec;
}
interface Plain {
  kernel: string;
  target: string;
  config: string;
  signature: string;
  triton: string;
  seconds: number;
  files: string[];
  facts: Fact[];
  sources: Source[];
  chains: Place[][];
  lines: LineFacts[];
  suggestions: Suggestion[];
  remarks: Remark[];
  launches: number;
  failure: string;
  failure_place: Place | null;
  notes: string[];
}
interface PackedCheck extends Plain {
  texts: PackedText[];
}
export interface Header {
  warplens: string;
  title: string;
  notes: string[];
  texts: string[];
  checks: PackedCheck[];
}

/** A line of Python that is shown. */
export interface PythonLine {
  id: number;
  file: number;
  line: number;
  text: string;
  facts: LineFacts | null;
  suggestions: Suggestion[];
  remarks: Remark[];
}

export class Check {
  readonly python: PythonLine[] = [];
  /** Kinds of the texts, in the order in which the compiler makes them. */
  readonly kinds: string[];
  /** By chain: the lines of Python it goes through, innermost first. */
  readonly chainLines: number[][];
  private readonly ids = new Map<string, number>();
  private readonly listings = new Map<string, Listing>();

  constructor(
    readonly plain: Plain,
    private readonly packed: PackedText[],
    private readonly texts: string[],
    private readonly bytes: Uint8Array,
  ) {
    this.kinds = packed.map(({ kind }) => kind);
    for (const { file, line, text } of plain.sources) {
      for (const [at, code] of text.entries()) this.add(file, line + at, code);
    }
    this.chainLines = plain.chains.map((chain) => {
      const ids = chain.map(({ file, line }) => this.idOf(file, line)).filter((id) => id >= 0);
      return [...new Set(ids)];
    });
    for (const facts of plain.lines) this.at(facts.place, (line) => (line.facts = facts));
    for (const each of plain.suggestions) this.at(each.place, (line) => line.suggestions.push(each));
    for (const each of plain.remarks) this.at(each.place, (line) => line.remarks.push(each));
  }

  /** The number of a line of Python, -1 where it is not shown. */
  idOf(file: number, line: number): number {
    return this.ids.get(`${file}.${line}`) ?? -1;
  }

  listing(kind: string, raw: boolean): Listing | null {
    const packed = this.packed.find((each) => each.kind === kind);
    if (!packed) return null;
    const key = `${kind}${raw}`;
    let found = this.listings.get(key);
    if (!found) {
      const lines = this.texts[packed.text].split("\n");
      const chains = readInts(packed.chains, this.bytes);
      const hidden = readInts(packed.bookkeeping, this.bytes);
      found = new Listing(kind, lines.slice(0, chains.length), chains, hidden, this.chainLines, raw);
      this.listings.set(key, found);
    }
    return found;
  }

  private add(file: number, line: number, text: string): void {
    const id = this.python.length;
    this.python.push({ id, file, line, text, facts: null, suggestions: [], remarks: [] });
    this.ids.set(`${file}.${line}`, id);
  }
  private at(place: Place | null, use: (line: PythonLine) => void): void {
    const id = place ? this.idOf(place.file, place.line) : -1;
    if (id >= 0) use(this.python[id]);
  }
}

export interface Page {
  header: Header;
  check(at: number): Check;
}

export async function load(base64: string): Promise<Page> {
  const unpacked = await unpack(base64);
  const header = unpacked.header as Header;
  const made = new Map<number, Check>();
  return {
    header,
    check(at) {
      const packed = header.checks[at];
      const found = made.get(at) ?? new Check(packed, packed.texts, header.texts, unpacked.bytes);
      made.set(at, found);
      return found;
    },
  };
}

export function fileName(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
