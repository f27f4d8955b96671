// (parent, name) → child, for millions of look-ups: a Map with such keys takes five times as long.

const FREE = -1;

/** The nodes' own parents and names are the keys; they are handed in, because they move when the tree grows. */
export class ChildIndex {
  private mask = (1 << 12) - 1;
  private slots = new Int32Array(this.mask + 1).fill(FREE);
  private taken = 0;

  /** The slot that holds the child, or the free one where it belongs. */
  slot(parent: number, name: number, parents: Int32Array, names: Int32Array): number {
    let at = hash(parent, name) & this.mask;
    for (;;) {
      const node = this.slots[at];
      if (node === FREE || (parents[node] === parent && names[node] === name)) return at;
      at = (at + 1) & this.mask;
    }
  }
  /** The child in a slot, -1 for none. */
  at(slot: number): number {
    return this.slots[slot];
  }
  put(slot: number, node: number, parents: Int32Array, names: Int32Array): void {
    this.slots[slot] = node;
    if (2 * ++this.taken > this.mask) this.grow(parents, names);
  }

  private grow(parents: Int32Array, names: Int32Array): void {
    const old = this.slots;
    this.mask = 2 * this.mask + 1;
    this.slots = new Int32Array(this.mask + 1).fill(FREE);
    for (let at = 0; at < old.length; at++) {
      const node = old[at];
      if (node !== FREE) this.slots[this.slot(parents[node], names[node], parents, names)] = node;
    }
  }
}

function hash(parent: number, name: number): number {
  const mixed = Math.imul(parent, 0x9e3779b1) ^ Math.imul(name, 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
