// What the reader has chosen. It lives in the address after #, so that a link reopens the same view.

export interface State {
  theme: string; // "", light or dark; "": as the system says
  steps: string; // chosen steps: "3,5" ("": all)
  range: string; // chosen range of time in ns: "100-900" ("": none)
  view: string; // what the timeline shows, in ns since its origin: "0-5000" ("": everything)
  event: string; // event whose details are shown: "scene:row"
  hide: string; // categories switched off, one per |
  colour: string; // timeline: "category" or "kernel"
  lanes: string; // lanes opened or closed by hand: "+3,-0"
  table: string; // which table is shown
  sort: string; // its order: "-total_us" (descending) or "op"
  filter: string; // its filter
  row: string; // its selected row, by place in the table's own order
  weight: string; // flame graph: gpu or cpu; of two profiles a, b or delta; without a timeline a column of the tree
  order: string; // flame graph: left (heaviest first), time or inverted
  context: string; // flame graph: python, module, op or annotation
  zoom: string; // flame graph: path to the node that fills the width, one name per \u0001
  q: string; // what is searched for, everywhere
  at: string; // the section that a link or a jump leads to
}
export type Key = keyof State;
export type Changed = ReadonlySet<Key>;

const DEFAULTS: State = {
  theme: "",
  steps: "",
  range: "",
  view: "",
  event: "",
  hide: "",
  colour: "category",
  lanes: "",
  table: "",
  sort: "",
  filter: "",
  row: "",
  weight: "gpu",
  order: "left",
  context: "",
  zoom: "",
  q: "",
  at: "",
};
const KEYS = Object.keys(DEFAULTS) as Key[];
const WRITE_AFTER_MS = 150;

export class Store {
  private state: State;
  private readonly listeners: ((changed: Changed) => void)[] = [];
  private timer = 0;
  private written = "";

  constructor(hash: string) {
    this.state = parse(hash);
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) this.set(parse(location.hash));
    });
  }

  get(key: Key): string {
    return this.state[key];
  }
  /** The values separated by commas or bars, without empty ones. */
  list(key: Key, separator = ","): string[] {
    return this.state[key].split(separator).filter(Boolean);
  }
  /** A pair of numbers such as "100-900", or null. */
  pair(key: Key): [number, number] | null {
    const match = /^(-?[\d.]+)-(-?[\d.]+)$/.exec(this.state[key]);
    return match ? [Number(match[1]), Number(match[2])] : null;
  }

  set(values: Partial<State>): void {
    const changed = new Set<Key>();
    for (const key of KEYS) {
      const value = values[key];
      if (value !== undefined && value !== this.state[key]) {
        this.state[key] = value;
        changed.add(key);
      }
    }
    if (!changed.size) return;
    for (const listener of this.listeners) listener(changed);
    // Browsers allow few changes of the address per second: a drag writes it once, at its end.
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), WRITE_AFTER_MS);
  }

  /** The same as a step that the browser's Back takes back. */
  jump(values: Partial<State>): void {
    this.write();
    this.set(values);
    clearTimeout(this.timer);
    const next = this.hash();
    if (next !== this.written) history.pushState(null, "", `#${next}`);
    this.written = next;
  }

  listen(listener: (changed: Changed) => void): void {
    this.listeners.push(listener);
  }

  /** The address part for the present view. */
  hash(): string {
    const parts = KEYS.filter((key) => this.state[key] !== DEFAULTS[key]);
    return parts.map((key) => `${key}=${encodeURIComponent(this.state[key])}`).join("&");
  }

  private write(): void {
    clearTimeout(this.timer);
    this.written = this.hash();
    history.replaceState(null, "", `#${this.written}`);
  }
}

function parse(hash: string): State {
  const state = { ...DEFAULTS };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [key, value] = [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)];
    if (key in state) state[key as Key] = decoded(value);
  }
  return state;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // a link that was cut short
  }
}
