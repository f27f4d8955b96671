// Codecs that several pages use: see store.ts.
import type { Codec } from "./store";

export function text(initial = ""): Codec<string> {
  return { initial, read: (value) => value, write: (value) => value };
}

/** One of some texts; the first where nothing else is chosen. */
export function oneOf<T extends string>(values: readonly [T, ...T[]]): Codec<T> {
  const [initial] = values;
  return { initial, read: (value) => values.find((candidate) => candidate === value) ?? initial, write: (value) => value };
}

/** True where the address says `on`. */
export function flag(on = "1"): Codec<boolean> {
  return { initial: false, read: (value) => value === on, write: (value) => (value ? on : "") };
}

/** A whole number from 0 on. */
export function count(initial: number): Codec<number> {
  return { initial, read: (value) => (/^\d+$/.test(value) ? Number(value) : initial), write: String };
}

/** A whole number from 0 on, or null. */
export function position(): Codec<number | null> {
  return {
    initial: null,
    read: (value) => (/^\d+$/.test(value) ? Number(value) : null),
    write: (value) => (value === null ? "" : String(value)),
  };
}

/** Texts with a separator between them; empty ones are dropped. */
export function texts(separator: string): Codec<readonly string[]> {
  return { initial: [], read: (value) => value.split(separator).filter(Boolean), write: (value) => value.join(separator) };
}

/** Whole numbers with a separator between them. */
export function numbers(separator: string): Codec<readonly number[]> {
  return {
    initial: [],
    read: (value) => (value ? value.split(separator).map(Number) : []).filter(Number.isInteger),
    write: (value) => value.join(separator),
  };
}

export type Range = readonly [from: number, to: number];

export function isSameRange(a: Range | null, b: Range | null): boolean {
  return a === b || (a !== null && b !== null && a[0] === b[0] && a[1] === b[1]);
}

/** "100-900", or null. */
export function range(): Codec<Range | null> {
  return {
    initial: null,
    read: (value) => {
      const match = /^(-?[\d.]+)-(-?[\d.]+)$/.exec(value);
      return match ? [Number(match[1]), Number(match[2])] : null;
    },
    write: (value) => (value ? `${value[0]}-${value[1]}` : ""),
  };
}
