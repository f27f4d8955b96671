// Each family's colour, which is that of its kernels everywhere on the page, and a shape, so that colour is not needed.
import type { Palette } from "../../palette";

type Shape = "circle" | "square" | "up" | "down" | "right" | "diamond" | "pentagon" | "hexagon" | "star" | "plus" | "times";

const STYLES: Record<string, [category: string, shape: Shape]> = {
  gemm: ["GEMM", "circle"],
  attention: ["Flash Attention Forward", "square"],
  convolution: ["Convolution", "up"],
  norm: ["Normalization", "diamond"],
  softmax: ["Softmax", "down"],
  pointwise: ["Elementwise", "hexagon"],
  reduction: ["Reduction", "pentagon"],
  optimizer: ["Optimizer", "star"],
  loss: ["Loss", "right"],
  indexing: ["Embedding/Index", "diamond"],
  copy: ["Memory Ops", "plus"],
  cast: ["Memory Ops", "times"],
  cat: ["Memory Ops", "square"],
  fill: ["Memory Ops", "circle"],
  transfer: ["Memory Ops", "right"],
  collective: ["Communication", "star"],
};

export function familyColour(palette: Palette, family: string): string {
  const style = STYLES[family];
  return style ? palette.category(style[0]) : palette.other(family);
}

/** The outline of a family's mark around 0, 0; all shapes of one radius have about the same area. */
export function familyPath(family: string, radius: number): string {
  return outline(STYLES[family]?.[1] ?? "circle", radius);
}

function outline(shape: Shape, r: number): string {
  switch (shape) {
    case "circle":
      return `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
    case "square":
      return polygon(4, r, 45);
    case "diamond":
      return polygon(4, r, 0);
    case "up":
      return polygon(3, r, 0);
    case "down":
      return polygon(3, r, 180);
    case "right":
      return polygon(3, r, 90);
    case "pentagon":
      return polygon(5, r, 0);
    case "hexagon":
      return polygon(6, r, 0);
    case "star":
      return closed(corners(10, 0, (at) => (at % 2 ? 0.65 : 1.35) * r));
    case "plus":
      return cross(r, 0);
    case "times":
      return cross(r, 45);
  }
}

function polygon(sides: number, r: number, turn: number): string {
  const size = r * Math.sqrt(Math.PI / ((sides / 2) * Math.sin((2 * Math.PI) / sides)));
  return closed(corners(sides, turn, () => size));
}

type Corner = [x: number, y: number];

function corners(count: number, turn: number, radius: (at: number) => number): Corner[] {
  return Array.from({ length: count }, (_, at) => {
    const angle = ((360 / count) * at + turn - 90) * (Math.PI / 180);
    return [radius(at) * Math.cos(angle), radius(at) * Math.sin(angle)];
  });
}

function cross(r: number, turn: number): string {
  const [arm, half] = [1.25 * r, 0.42 * r];
  const quarter: Corner[] = [
    [-half, -arm],
    [half, -arm],
    [half, -half],
  ];
  const cos = Math.cos((turn * Math.PI) / 180);
  const sin = Math.sin((turn * Math.PI) / 180);
  const all = [0, 1, 2, 3].flatMap((turns) => quarter.map((corner) => quarterTurns(corner, turns)));
  return closed(all.map(([x, y]) => [x * cos - y * sin, x * sin + y * cos]));
}

function quarterTurns([x, y]: Corner, turns: number): Corner {
  return turns ? quarterTurns([-y, x], turns - 1) : [x, y];
}

function closed(points: Corner[]): string {
  return `M${points.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}Z`;
}
