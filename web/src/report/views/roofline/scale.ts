// Logarithmic axes.

export interface LogScale {
  (value: number): number;
  from: number;
  to: number;
}

/** From values to pixels; what is outside is put at the edge. */
export function logScale([from, to]: [number, number], [start, end]: [number, number]): LogScale {
  const [low, high] = [Math.log10(from), Math.log10(to)];
  const scale = (value: number): number => {
    const share = (Math.log10(Math.max(value, from / 10)) - low) / (high - low);
    return start + (end - start) * Math.max(0, Math.min(1, share));
  };
  return Object.assign(scale, { from, to });
}

export function powers({ from, to }: { from: number; to: number }): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) ticks.push(10 ** power);
  const inside = ticks.filter((tick) => tick >= from && tick <= to);
  // Less than two decades: with powers alone an axis would have one mark or none.
  return inside.length > 1 ? inside : ticks.flatMap((tick) => [tick, 2 * tick, 5 * tick]).filter((tick) => tick >= from && tick <= to);
}

/** 0.001 … 0.1, 1, 10, 1,000; smaller ones as powers. */
export function tickText(value: number): string {
  if (value >= 0.001 && value < 1e6) return value.toLocaleString("en-US", { maximumFractionDigits: 3 });
  const power = Math.round(Math.log10(value));
  return `10${[...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"["0123456789".indexOf(digit)] ?? "⁻").join("")}`;
}

/** The value below which is only a small share of the weight: what a few tiny ops cannot stretch. */
export function lowerEdge(values: number[], weights: number[], share: number): number {
  const order = values.map((_, at) => at).sort((a, b) => values[a] - values[b]);
  let left = share * weights.reduce((sum, weight) => sum + weight, 0);
  for (const at of order) {
    left -= weights[at];
    if (left < 0) return values[at];
  }
  return values[order[order.length - 1]];
}
