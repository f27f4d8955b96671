// Arithmetic on colours (#rrggbb), and the colours of the present theme.

const CALM = 0.31; // lightness of callers on a dark page
const DARKEST = 0.12; // of luminance, on a dark page: what is darker is lightened

export function isDark(): boolean {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The page's own colours, for what is drawn on a canvas: `cssColour("--text")`. */
export function cssColour(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

/** Black or white, whichever reads better on a colour. */
export function ink(colour: string): string {
  return luminance(channels(colour)) > 0.179 ? "#000000" : "#ffffff";
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
}

function luminance(rgb: number[]): number {
  const [r, g, b] = rgb.map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** A colour that is light enough for a dark page. */
export function lightened(colour: string): string {
  let rgb = channels(colour);
  for (let step = 0; step < 12 && luminance(rgb) < DARKEST; step++) rgb = rgb.map((value) => value + (1 - value) * 0.12);
  return spelled(rgb);
}

/** A pale colour for a dark page: the same hue, dark and calm. */
export function darkened(colour: string): string {
  const rgb = channels(colour);
  const middle = (Math.max(...rgb) + Math.min(...rgb)) / 2;
  // Around the middle the channels of a pale colour differ little; on a dark page they may differ more.
  return spelled(rgb.map((value) => CALM + 1.1 * (value - middle)));
}

/** `share` of the way from one colour to another, both #rrggbb. */
export function mixed(from: string, to: string, share: number): string {
  const [a, b] = [channels(from), channels(to)];
  return spelled(a.map((value, at) => value + (b[at] - value) * share));
}

function spelled(rgb: number[]): string {
  const hex = (value: number): string =>
    Math.round(255 * Math.min(1, Math.max(0, value)))
      .toString(16)
      .padStart(2, "0");
  return `#${rgb.map(hex).join("")}`;
}
