// What a browser remembers of a reader from one page to the next: sizes, not choices, which the address keeps.

const PREFIX = "warplens.";

/** A number from an earlier visit, or null: from a file some browsers keep nothing. */
export function remembered(name: string): number | null {
  try {
    const value = Number(localStorage.getItem(PREFIX + name) ?? NaN);
    return Number.isFinite(value) ? value : null;
  } catch {
    return null;
  }
}

export function remember(name: string, value: number): void {
  try {
    localStorage.setItem(PREFIX + name, String(value));
  } catch {
    // Then it holds until the page is closed.
  }
}
