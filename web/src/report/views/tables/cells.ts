// How a cell looks: its text, what is elided of it, and how wide its column is.
import type { Column, Table } from "../../data/table";

// Numbers that name something rather than count: no thousands separators.
const NAMES = new Set(["line", "step", "stream", "device", "gpu", "node", "parent", "a_step", "b_step"]);
// Moments are shown to the µs: rounded as lengths are, those late in a trace would look the same.
const MOMENTS = new Set(["start_ms", "end_ms", "peak_ms"]);
const momentFormat = new Intl.NumberFormat("en-US", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
// Long texts that are seldom read: shown last. Files keep the report's own order.
const LAST = new Set(["op_category", "input_strides", "concrete_inputs"]);
// What decides is shown without scrolling sideways.
const COSTED = ["total_us", "percent", "percent_of_roofline", "lost_us", "tflops", "tbps", "bound", "count", "kernel_us_mean"];
const FIRST: Record<string, string[]> = {
  kernels: ["op", "kernel_short", "kernel_category", "total_us", "percent", "count", "mean_us"],
  op_shapes: ["op", "input_dims", "input_types", "kernel_us", "percent", "count", "kernel_us_mean", "percent_of_roofline"],
  roofline: ["op", "params", "dtype", ...COSTED],
  launches: ["kernel_short", "op", "grid", "block", "total_us", "percent", "count", "occupancy_percent", "waves"],
};
const WIDEST_TEXT = 32;
const WIDEST_FIRST = 34;
const SAMPLED = 300;
const ELLIPSIS = "…";

/** The columns in the order in which they are shown: a kernel's short name where its full one would be. */
export function shownColumns(table: Table): Column[] {
  const late = (name: string): boolean => LAST.has(name) || (name === "kernel" && table.has("kernel_short"));
  const [short, kernel] = ["kernel_short", "kernel"].map((name) => table.columns.findIndex((column) => column.name === name));
  const columns = table.columns.slice();
  if (kernel >= 0 && short > kernel) [columns[short], columns[kernel]] = [columns[kernel], columns[short]];
  const first = FIRST[table.name] ?? [];
  const rank = ({ name }: Column): number => (late(name) ? 2 : first.includes(name) ? 0 : 1);
  const position = ({ name }: Column): number => (first.includes(name) ? first.indexOf(name) : 0);
  return columns.sort((a, b) => rank(a) - rank(b) || position(a) - position(b));
}

export function cellText(table: Table, column: Column, row: number): string {
  if (column.kind === "number" && NAMES.has(column.name)) return table.textOf(column, row);
  if (MOMENTS.has(column.name) && !Number.isNaN(column.values[row])) return momentFormat.format(column.values[row]);
  return table.shown(column, row);
}

/** Cut in the middle: names begin with what they are and end with what distinguishes them. */
export function elided(text: string, most: number): string {
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) * 0.4);
  return text.slice(0, most - 1 - tail) + ELLIPSIS + text.slice(text.length - tail);
}

/** A column's width in characters: what it needs, and what it gets unless there is room to spare. */
export interface Width {
  wanted: number;
  usual: number;
}

export function widthOf(table: Table, column: Column, isFirst: boolean): Width {
  const header = column.name.length + (column.unit ? column.unit.length + 1 : 0) + 2;
  let longest = 0;
  for (const row of sampleOf(table, column)) longest = Math.max(longest, cellText(table, column, row).length);
  const wanted = Math.max(header, longest);
  if (column.kind !== "text") return { wanted, usual: wanted };
  return { wanted, usual: Math.max(Math.min(wanted, isFirst ? WIDEST_FIRST : WIDEST_TEXT), header) };
}

/** Some rows all over the table, and those with the smallest and largest numbers. */
function sampleOf(table: Table, column: Column): number[] {
  const stride = Math.max(1, Math.floor(table.rows / SAMPLED));
  const rows: number[] = [];
  for (let row = 0; row < table.rows; row += stride) rows.push(row);
  if (column.kind !== "number" || stride === 1) return rows;
  let [least, most] = [0, 0];
  for (let row = 0; row < table.rows; row++) {
    if (column.values[row] < column.values[least]) least = row;
    if (column.values[row] > column.values[most]) most = row;
  }
  return [...rows, least, most];
}

/** Each column's width in characters, where so many fit: spare room goes to the texts that are cut. */
export function shareOut(widths: Width[], room: number): number[] {
  const given = widths.map(({ usual }) => usual);
  let spare = room - given.reduce((sum, width) => sum + width, 0);
  for (let left = widths.length; left > 0 && spare > 0; left--) {
    const cut = widths.flatMap(({ wanted }, at) => (wanted > given[at] ? [at] : []));
    if (!cut.length) break;
    const share = Math.max(1, Math.floor(spare / cut.length));
    for (const at of cut) {
      const more = Math.min(share, widths[at].wanted - given[at], Math.max(0, spare));
      given[at] += more;
      spare -= more;
    }
  }
  return given;
}

/** Puts a text into a cell with what is searched for marked; a match in the elided part marks the ellipsis. */
export function fillMarked(cell: HTMLElement, shown: string, full: string, search: string): void {
  const at = shown.toLowerCase().indexOf(search);
  const [from, to] = at >= 0 ? [at, at + search.length] : [shown.indexOf(ELLIPSIS), shown.indexOf(ELLIPSIS) + 1];
  if (from < 0 || !full.toLowerCase().includes(search)) {
    cell.textContent = shown;
    return;
  }
  const mark = document.createElement("mark");
  mark.textContent = shown.slice(from, to);
  cell.replaceChildren(shown.slice(0, from), mark, shown.slice(to));
}
