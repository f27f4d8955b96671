// Numbers for people. Times come in nanoseconds unless the name says otherwise.

const TIME_UNITS: [name: string, ns: number][] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];
const SIZE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNT_UNITS = ["", "k", "M", "G", "T", "P"];

export function formatNs(ns: number): string {
  const size = Math.abs(ns);
  if (size === 0) return "0 ns";
  const [name, factor] = TIME_UNITS.find(([, unit]) => size >= unit) ?? ["ns", 1];
  return `${significant(ns / factor)} ${name}`;
}

export function formatMs(ms: number): string {
  return formatNs(ms * 1e6);
}

export function formatPercent(percent: number): string {
  return `${percent.toFixed(percent !== 0 && Math.abs(percent) < 9.95 ? 1 : 0)} %`;
}

export function formatBytes(bytes: number): string {
  return scaled(bytes, 1024, SIZE_UNITS);
}

export function formatFlop(flop: number): string {
  return `${scaled(flop, 1000, COUNT_UNITS)}FLOP`;
}

/** "1 event", "2,345 events". */
export function formatPlural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A moment, with as many digits as distinguish it from one `span` ns later. */
export function formatMoment(ns: number, span: number): string {
  const decimals = Math.max(0, Math.min(6, Math.ceil(1 - Math.log10(Math.max(1, span) / 1e6))));
  return `${formatter(decimals).format(ns / 1e6)} ms`;
}

export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** Three significant digits, thousands kept whole: 12,345 · 123 · 12.3 · 1.23. */
export function significant(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return formatter(0).format(Math.round(value));
  return value.toFixed(size >= 10 ? 1 : 2);
}

// toLocaleString makes a formatter on every call, which a table that is scrolled feels; all of them at once would cost a
// page that opens 20 ms.
const withDecimals: Intl.NumberFormat[] = [];

function formatter(decimals: number): Intl.NumberFormat {
  return (withDecimals[decimals] ??= new Intl.NumberFormat("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  }));
}

/** A table's cell: whole numbers whole, others with the decimals that their unit deserves. */
export function formatNumber(value: number, unit: string): string {
  if (Number.isInteger(value)) return formatter(0).format(value);
  const size = Math.abs(value);
  const decimals = unit === "%" ? 2 : size >= 100 ? 1 : size >= 1 ? 2 : size >= 0.001 ? 4 : 6;
  return formatter(decimals)
    .format(value)
    .replace(/^-(0\.0+)$/, "$1");
}

function scaled(value: number, base: number, units: string[]): string {
  let step = 0;
  while (Math.abs(value) >= base && step < units.length - 1) {
    value /= base;
    step++;
  }
  return `${step ? significant(value) : String(Math.round(value))} ${units[step]}`;
}
