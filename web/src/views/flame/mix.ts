// Colours between two others.

/** `share` of the way from one colour (#rrggbb) to another. */
export function mixed(from: string, to: string, share: number): string {
  const channel = (at: number): string => {
    const [a, b] = [from, to].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * share)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}

const CALLER_LIGHTNESS = 0.31;

/** A pale colour for a dark page: the same hue, dark and calm. */
export function darkened(colour: string): string {
  const rgb = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const middle = (Math.max(...rgb) + Math.min(...rgb)) / 2;
  // Around the middle the channels of a pale colour differ little; on a dark page they may differ more.
  return `#${rgb
    .map((value) => Math.max(0, CALLER_LIGHTNESS + 1.1 * (value - middle)))
    .map((value) => Math.round(255 * Math.min(1, value)).toString(16).padStart(2, "0"))
    .join("")}`;
}
