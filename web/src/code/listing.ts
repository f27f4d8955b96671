// One text of the compiler as it is shown: which of its lines, what they say, which lines of Python they come from.

const NONE: readonly number[] = [];
const LOCATION = / loc\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)/g;
const DEBUG_MARK = /, !dbg !\d+/g;
const TRAILING_PLACE = /\s+(?:;|\/\/) \S+\.py:\d+:\d+.*$/;
// What a reader looks for on a line first: not the arithmetic of its addresses, but what moves or multiplies tiles.
const MLIR_WORK =
  /\b(?:tt\.(?:load|store|dot\w*|reduce|scan|atomic\w+|descriptor_\w+|gather|histogram)|ttg\.async_copy\w+|ttng\.(?:warp_group_dot|tc_gen5_mma\w*|async_tma\w+)|amdg\.buffer_\w+|scf\.(?:for|while|if))\b(?!_wait)/;
const WORK: Record<string, RegExp> = {
  ttir: MLIR_WORK,
  ttgir: MLIR_WORK,
  llir: /cp\.async\.c[ag]|cp\.async\.bulk|[ls][dt]\.global|wgmma\.mma|mma\.sync|tcgen05\.mma|buffer\.(?:load|store)|\bmfma|atomicrmw|(?:load|store) .*addrspace\(1\)/,
  ptx: /cp\.async\.c[ag]|cp\.async\.bulk\.tensor|[ls][dt]\.global|wgmma\.mma|mma\.sync|tcgen05\.mma|\batom\.|\bred\./,
  sass: /\b(?:LDGSTS|LDG|STG|[HIDBQO]G?MMA|UTC\w*MMA|UTMALDG|UTMASTG|ATOM\w*|RED|REDG)\b/,
  amdgcn: /\b(?:buffer|global|flat)_(?:load|store|atomic)|\bv_(?:mfma|wmma)/,
};
const TAB = 8;
const INDENT = "    ";

export class Listing {
  /** Of each row: its line in the whole text, from 0. */
  readonly rows: Int32Array;
  readonly longest: number;
  private readonly rowsByLine = new Map<number, Int32Array>();
  private readonly texts: (string | undefined)[] = [];

  constructor(
    readonly kind: string,
    private readonly lines: string[],
    private readonly chains: Int32Array,
    hidden: Int32Array,
    private readonly chainLines: number[][],
    private readonly raw: boolean,
  ) {
    const all = Int32Array.from(lines.keys());
    this.rows = raw ? all : all.filter((line) => !hidden[line]);
    let longest = 0;
    for (let row = 0; row < this.rows.length; row++) longest = Math.max(longest, this.text(row).length);
    this.longest = longest;
  }

  text(row: number): string {
    return (this.texts[row] ??= tidied(this.kind, this.lines[this.rows[row]] ?? "", this.raw));
  }
  chain(row: number): number {
    return this.chains[this.rows[row]];
  }
  /** Lines of Python that the row comes from, innermost first. */
  pythonOf(row: number): readonly number[] {
    const chain = this.chain(row);
    return chain < 0 ? NONE : this.chainLines[chain];
  }
  /** Rows that come from a line of Python, itself or through what it calls. */
  rowsOf(id: number): Int32Array {
    let rows = this.rowsByLine.get(id);
    if (!rows) {
      const isWanted = this.chainLines.map((ids) => ids.includes(id));
      rows = Int32Array.from(this.rows.keys()).filter((row) => isWanted[this.chain(row)]);
      this.rowsByLine.set(id, rows);
    }
    return rows;
  }
  /** The row that says most about a line of Python: the first that does its work, else the first at all; -1 for none. */
  mainRowOf(id: number): number {
    const rows = this.rowsOf(id);
    const work = WORK[this.kind];
    const own = rows.filter((row) => this.pythonOf(row)[0] === id);
    return [own, rows].map((some) => some.find((row) => work?.test(this.text(row)))).find((row) => row !== undefined) ?? rows[0] ?? -1;
  }
  /** First rows of the stretches that come from a line of Python. */
  stretchesOf(id: number): number[] {
    const rows = this.rowsOf(id);
    return Array.from(rows.filter((row, at) => !at || rows[at - 1] !== row - 1));
  }
  /** All of it as it is shown. */
  whole(): string {
    return Array.from(this.rows.keys(), (row) => this.text(row)).join("\n");
  }
  /** Rows that contain a text, in lower case. */
  find(query: string): number[] {
    const hits: number[] = [];
    for (let row = 0; row < this.rows.length; row++) if (this.text(row).toLowerCase().includes(query)) hits.push(row);
    return hits;
  }
}

/** Without the marks that say where a line comes from: the page shows that in its own way. */
function tidied(kind: string, line: string, raw: boolean): string {
  let text = line;
  if (!raw) {
    if (kind === "ttir" || kind === "ttgir") text = text.replace(LOCATION, "");
    else if (kind === "llir") text = text.replace(DEBUG_MARK, "");
    else if (kind === "sass") text = text.replace(/^\s+\/\*/, "/*").replace(/\*\/ {12}/, "*/");
    else text = text.replace(TRAILING_PLACE, "");
  }
  return expanded(text);
}

/** Tabs as blanks: a tab in front is a step in, one in between aligns. */
function expanded(line: string): string {
  if (!line.includes("\t")) return line;
  let out = "";
  for (const character of line) {
    if (character !== "\t") out += character;
    else if (!out.trim()) out += INDENT;
    else out += " ".repeat(TAB - (out.length % TAB));
  }
  return out;
}
