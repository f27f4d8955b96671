// What the reader has chosen, in the address after #.

const DEFAULTS = {
  theme: "", // "", light or dark
  check: "0", // place among the compilations of the page
  stages: "", // texts beside the Python, by their kinds with dots between; "": the usual ones
  tab: "python", // what a narrow window shows: python or the kind of a text
  line: "", // the chosen line of Python: number of its file, dot, line
  raw: "", // "1": with debug information
  sizes: "", // widths of the columns as shares, with dots between
  facts: "", // "0": what is known of the line is folded away
};
export type State = typeof DEFAULTS;
export type Key = keyof State;
export type Changed = ReadonlySet<Key>;
const KEYS = Object.keys(DEFAULTS) as Key[];
const WRITE_AFTER_MS = 150;

export class Store {
  private readonly state: State;
  private readonly listeners: ((changed: Changed) => void)[] = [];
  private timer = 0;
  private written = "";

  constructor() {
    this.state = parse(location.hash);
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) this.set(parse(location.hash));
    });
  }

  get(key: Key): string {
    return this.state[key];
  }

  set(values: Partial<State>): void {
    const changed = new Set<Key>();
    for (const key of KEYS) {
      const value = values[key];
      if (value === undefined || value === this.state[key]) continue;
      this.state[key] = value;
      changed.add(key);
    }
    if (!changed.size) return;
    for (const listener of this.listeners) listener(changed);
    // Browsers allow few changes of the address per second: held arrow keys write it once, at their end.
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.written = this.hash();
      history.replaceState(null, "", `#${this.written}`);
    }, WRITE_AFTER_MS);
  }

  listen(listener: (changed: Changed) => void): void {
    this.listeners.push(listener);
  }

  private hash(): string {
    const parts = KEYS.filter((key) => this.state[key] !== DEFAULTS[key]);
    return parts.map((key) => `${key}=${encodeURIComponent(this.state[key])}`).join("&");
  }
}

function parse(hash: string): State {
  const state = { ...DEFAULTS };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    const key = part.slice(0, at);
    if (Object.hasOwn(state, key)) state[key as Key] = decoded(part.slice(at + 1));
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
