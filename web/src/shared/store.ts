// What the reader has chosen, in the address after #: a link reopens the same view. Each key has a codec, which says
// what type its value has and how the address spells it.

export interface Codec<T> {
  /** The value that the address omits. */
  readonly initial: T;
  /** `initial` where the text means nothing: links are typed and cut by people. */
  read(this: void, text: string): T;
  write(this: void, value: T): string;
}
// Codecs of different types share one record; StateOf gives each key its type back.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Codecs = Record<string, Codec<any>>;
export type StateOf<C extends Codecs> = { [K in keyof C]: C[K] extends Codec<infer T> ? T : never };
export type KeyOf<C extends Codecs> = keyof C & string;

/** The browser's address; tests have one of their own. */
export interface Address {
  hash(): string;
  replace(hash: string): void;
  push(hash: string): void;
  listen(changed: () => void): void;
}

export const BROWSER: Address = {
  hash: () => location.hash.slice(1),
  replace: (hash) => history.replaceState(null, "", `#${hash}`),
  push: (hash) => history.pushState(null, "", `#${hash}`),
  listen: (changed) => window.addEventListener("hashchange", changed),
};

const WRITE_AFTER_MS = 150;

export class Store<C extends Codecs> {
  private readonly state: StateOf<C>;
  private readonly keys: KeyOf<C>[];
  private readonly listeners: ((changed: ReadonlySet<KeyOf<C>>) => void)[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private written: string;

  /** `start` is the view of a page that is opened without one in its address. */
  constructor(
    private readonly codecs: C,
    start = "",
    private readonly address: Address = BROWSER,
  ) {
    this.keys = Object.keys(codecs) as KeyOf<C>[];
    this.written = address.hash();
    this.state = this.parse(this.written || start);
    address.listen(() => {
      if (address.hash() === this.written) return;
      this.written = address.hash();
      this.set(this.parse(this.written));
    });
  }

  get<K extends KeyOf<C>>(key: K): StateOf<C>[K] {
    return this.state[key];
  }
  /** A value as the address spells it. */
  text(key: KeyOf<C>): string {
    return this.codecs[key].write(this.state[key]);
  }

  set(values: Partial<StateOf<C>>): void {
    const changed = new Set<KeyOf<C>>();
    for (const key of this.keys) {
      const value = values[key];
      if (value === undefined || this.codecs[key].write(value) === this.text(key)) continue;
      this.state[key] = value as StateOf<C>[typeof key];
      changed.add(key);
    }
    if (!changed.size) return;
    for (const listener of this.listeners) listener(changed);
    // Browsers allow few changes of the address per second: a drag, or a held key, writes it once, at its end.
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), WRITE_AFTER_MS);
  }
  /** The same for values as the address spells them. */
  setTexts(texts: Readonly<Record<string, string>>): void {
    const keys = this.keys.filter((key) => texts[key] !== undefined);
    this.set(Object.fromEntries(keys.map((key) => [key, this.codecs[key].read(texts[key]) as unknown])) as Partial<StateOf<C>>);
  }

  /** The same as `set`, as a step that the browser's Back takes back. */
  jump(values: Partial<StateOf<C>>): void {
    this.write();
    this.set(values);
    clearTimeout(this.timer);
    const next = this.hash();
    if (next !== this.written) this.address.push(next);
    this.written = next;
  }

  listen(listener: (changed: ReadonlySet<KeyOf<C>>) => void): void {
    this.listeners.push(listener);
  }

  /** The address part for the present view. */
  hash(): string {
    const chosen = this.keys.filter((key) => this.text(key) !== this.codecs[key].write(this.codecs[key].initial));
    return chosen.map((key) => `${key}=${encodeURIComponent(this.text(key))}`).join("&");
  }

  private write(): void {
    clearTimeout(this.timer);
    // The reader went back, and the browser has yet to say so: that view is the one to show.
    if (this.address.hash() !== this.written) return;
    this.written = this.hash();
    this.address.replace(this.written);
  }

  private parse(hash: string): StateOf<C> {
    const state = Object.fromEntries(this.keys.map((key) => [key, this.codecs[key].initial as unknown]));
    for (const part of hash.replace(/^#/, "").split("&")) {
      const at = part.indexOf("=");
      const key = part.slice(0, at);
      if (Object.hasOwn(state, key)) state[key] = this.codecs[key].read(decoded(part.slice(at + 1)));
    }
    return state as StateOf<C>;
  }
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // a link that was cut short
  }
}
