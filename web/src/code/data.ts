// The data of the page as warplens_lab/pages/code_page.py packs it; the texts of a compilation are read when it is shown.
import { readInts, unpack } from "../shared/blocks";
import type { CodeHeader, CodeLine, CodePlace, CodeRemark, CodeSuggestion, PackedCheck, PackedText } from "../shared/generated/records";
import { Listing } from "./listing";

/** A line of Python that is shown. */
export interface PythonLine {
  id: number;
  file: number;
  line: number;
  text: string;
  facts: CodeLine | null;
  suggestions: CodeSuggestion[];
  remarks: CodeRemark[];
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
    readonly plain: PackedCheck,
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
    for (const suggestion of plain.suggestions) this.at(suggestion.place, (line) => line.suggestions.push(suggestion));
    for (const remark of plain.remarks) this.at(remark.place, (line) => line.remarks.push(remark));
  }

  /** The number of a line of Python, -1 where it is not shown. */
  idOf(file: number, line: number): number {
    return this.ids.get(`${file}.${line}`) ?? -1;
  }

  listing(kind: string, raw: boolean): Listing | null {
    const packed = this.packed.find((text) => text.kind === kind);
    if (!packed) return null;
    const key = `${kind}${raw}`;
    let listing = this.listings.get(key);
    if (!listing) {
      const lines = this.texts[packed.text].split("\n");
      const chains = readInts(packed.chains, this.bytes);
      const hidden = readInts(packed.bookkeeping, this.bytes);
      listing = new Listing(kind, lines.slice(0, chains.length), chains, hidden, this.chainLines, raw);
      this.listings.set(key, listing);
    }
    return listing;
  }

  private add(file: number, line: number, text: string): void {
    const id = this.python.length;
    this.python.push({ id, file, line, text, facts: null, suggestions: [], remarks: [] });
    this.ids.set(`${file}.${line}`, id);
  }
  private at(place: CodePlace | null, use: (line: PythonLine) => void): void {
    const id = place ? this.idOf(place.file, place.line) : -1;
    if (id >= 0) use(this.python[id]);
  }
}

export interface Page {
  header: CodeHeader;
  check(at: number): Check;
}

export async function load(base64: string): Promise<Page> {
  const unpacked = await unpack(base64);
  const header = unpacked.header as CodeHeader;
  const cache = new Map<number, Check>();
  return {
    header,
    check(at) {
      const packed = header.checks[at];
      const check = cache.get(at) ?? new Check(packed, packed.texts, header.texts, unpacked.bytes);
      cache.set(at, check);
      return check;
    },
  };
}

export function fileName(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
