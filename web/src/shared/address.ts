// What the reader of a page has chosen, in the address after #: names and texts.

const WRITE_AFTER_MS = 150;

export class AddressStore<State extends Record<string, string>> {
  private readonly state: State;
  private readonly keys: (keyof State & string)[];
  private readonly listeners: ((changed: ReadonlySet<keyof State>) => void)[] = [];
  private timer = 0;
  private written = "";

  constructor(private readonly defaults: State) {
    this.keys = Object.keys(defaults);
    this.state = this.parse(location.hash);
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) this.set(this.parse(location.hash));
    });
  }

  get(key: keyof State): string {
    return this.state[key];
  }

  set(values: Partial<State>): void {
    const changed = new Set<keyof State>();
    for (const key of this.keys) {
      const value = values[key];
      if (value === undefined || value === this.state[key]) continue;
      this.state[key] = value;
      changed.add(key);
    }
    if (!changed.size) return;
    for (const listener of this.listeners) listener(changed);
    // Browsers allow few changes of the address per second: a scrub, or a held key, writes it once, at its end.
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.written = this.hash();
      history.replaceState(null, "", `#${this.written}`);
    }, WRITE_AFTER_MS);
  }

  listen(listener: (changed: ReadonlySet<keyof State>) => void): void {
    this.listeners.push(listener);
  }

  private hash(): string {
    const parts = this.keys.filter((key) => this.state[key] !== this.defaults[key]);
    return parts.map((key) => `${key}=${encodeURIComponent(this.state[key])}`).join("&");
  }

  private parse(hash: string): State {
    const state: Record<string, string> = { ...this.defaults };
    for (const part of hash.replace(/^#/, "").split("&")) {
      const at = part.indexOf("=");
      const key = part.slice(0, at);
      if (Object.hasOwn(state, key)) state[key] = decoded(part.slice(at + 1));
    }
    return state as State;
  }
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // a link that was cut short
  }
}
