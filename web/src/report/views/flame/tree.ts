// A call tree while it is put together, and finished: equal paths are one node, parents come before their children.
import { ChildIndex } from "./child_index";

export const ROOT = 0;
const NONE = -1;

/** What decides a node's colour. */
export interface Tone {
  kind: string;
  /** Kernel category, "" for everything else. */
  category: string;
}

export interface Tree {
  names: string[];
  tones: Tone[];
  parent: Int32Array;
  /** Per node its place in `names` and in `tones`. */
  name: Int32Array;
  tone: Int32Array;
  selfNs: Float64Array;
  totalNs: Float64Array;
  selfCount: Float64Array;
  totalCount: Float64Array;
  /** Row of the longest event, -1 for none. */
  longest: Int32Array;
}

/** Texts by number, each once. */
class Interned {
  readonly texts: string[] = [];
  private readonly numbers = new Map<string, number>();

  number(text: string): number {
    let number = this.numbers.get(text);
    if (number === undefined) {
      number = this.texts.length;
      this.numbers.set(text, number);
      this.texts.push(text);
    }
    return number;
  }
}

const FIRST_CAPACITY = 1024;

export class TreeBuilder {
  private readonly names = new Interned();
  private readonly toneKeys = new Interned();
  private readonly children = new ChildIndex();
  private size = 0;
  // Typed arrays that grow: a tree in order of time has hundreds of thousands of nodes.
  private parent = new Int32Array(FIRST_CAPACITY);
  private name = new Int32Array(FIRST_CAPACITY);
  private tone = new Int32Array(FIRST_CAPACITY);
  private longest = new Int32Array(FIRST_CAPACITY);
  private ns = new Float64Array(FIRST_CAPACITY);
  private count = new Float64Array(FIRST_CAPACITY);
  private longestNs = new Float64Array(FIRST_CAPACITY);

  constructor() {
    this.append(NONE, this.nameNumber("all"), this.toneNumber("root"));
  }

  nameNumber(text: string): number {
    return this.names.number(text);
  }
  toneNumber(kind: string, category = ""): number {
    return this.toneKeys.number(`${kind}\n${category}`);
  }

  /** The node of this name below another, made where it is new. */
  child(parent: number, name: number, tone: number): number {
    const slot = this.children.slot(parent, name, this.parent, this.name);
    const child = this.children.at(slot);
    if (child >= 0) return child;
    const node = this.append(parent, name, tone);
    this.children.put(slot, node, this.parent, this.name);
    return node;
  }
  /** A new node, whether or not there is one of this name. */
  append(parent: number, name: number, tone: number): number {
    if (this.size === this.parent.length) this.grow();
    const node = this.size++;
    this.parent[node] = parent;
    this.name[node] = name;
    this.tone[node] = tone;
    this.longest[node] = NONE;
    this.longestNs[node] = NONE;
    return node;
  }
  /** Books time on a node; `row` is an event that lasted `lasted`. */
  book(node: number, ns: number, row: number, lasted: number, count = 1): void {
    this.ns[node] += ns;
    this.count[node] += count;
    this.keepLongest(node, row, lasted);
  }
  private keepLongest(node: number, row: number, lasted: number): void {
    if (lasted <= this.longestNs[node]) return;
    this.longest[node] = row;
    this.longestNs[node] = lasted;
  }
  private grow(): void {
    const twice = <T extends Int32Array | Float64Array>(old: T, grown: T): T => (grown.set(old), grown);
    const size = 2 * this.size;
    this.parent = twice(this.parent, new Int32Array(size));
    this.name = twice(this.name, new Int32Array(size));
    this.tone = twice(this.tone, new Int32Array(size));
    this.longest = twice(this.longest, new Int32Array(size));
    this.ns = twice(this.ns, new Float64Array(size));
    this.count = twice(this.count, new Float64Array(size));
    this.longestNs = twice(this.longestNs, new Float64Array(size));
  }

  /** `ownFirst`: a node's longest event is one of its own where it has any, even if one below took longer. */
  finish(ownFirst = false): Tree {
    const { size } = this;
    const totalNs = this.ns.slice(0, size);
    const totalCount = this.count.slice(0, size);
    const own = this.longest.slice(0, size);
    for (let node = size - 1; node > ROOT; node--) {
      const above = this.parent[node];
      totalNs[above] += totalNs[node];
      totalCount[above] += totalCount[node];
      if (!ownFirst || own[above] < 0) this.keepLongest(above, this.longest[node], this.longestNs[node]);
    }
    return {
      names: this.names.texts,
      tones: this.toneKeys.texts.map(toneOf),
      parent: this.parent.slice(0, size),
      name: this.name.slice(0, size),
      tone: this.tone.slice(0, size),
      selfNs: this.ns.slice(0, size),
      totalNs,
      selfCount: this.count.slice(0, size),
      totalCount,
      longest: this.longest.slice(0, size),
    };
  }
}

function toneOf(key: string): Tone {
  const [kind, category] = key.split("\n");
  return { kind, category };
}
