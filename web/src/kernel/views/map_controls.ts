// Which two dimensions of a tensor its map shows, and the index of the others.
import { h, replace } from "../../shared/dom";
import type { Tensor } from "../data";
import { choiceOf, type Mapping } from "../mapping";
import type { MapChoice } from "../state";

type Choose = (choice: MapChoice) => void;

export function showControls(host: HTMLElement, tensor: Tensor, mapping: Mapping, choose: Choose): void {
  const dims = tensor.shape.map((_, dim) => dim);
  if (dims.length < 2) return replace(host);
  // The sliders stay while one of them is being moved.
  const active = host.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
  if (active?.matches("input")) return moveSliders(host, mapping);
  const set = (change: Partial<Mapping>): void => choose(choiceOf({ ...mapping, ...change }));
  const another = (taken: number): number => dims.find((dim) => dim !== taken) as number;
  const row = mapping.row < 0 ? another(mapping.column) : mapping.row;
  // Choosing the dimension that the other axis has swaps the two.
  const rows = select("rows", tensor, row, (dim) => set(dim === mapping.column ? { row: dim, column: row } : { row: dim }));
  const columns = select("columns", tensor, mapping.column, (dim) =>
    set(dim === mapping.row ? { column: dim, row: mapping.column } : { column: dim }),
  );
  const others = dims.filter((dim) => dim !== mapping.row && dim !== mapping.column && tensor.shape[dim] > 1);
  replace(host, rows, columns, ...others.map((dim) => slider(host, tensor, mapping, dim, choose)));
  // Made anew, but under the reader's hands the same.
  if (active)
    [rows, columns]
      .find((button) => button.textContent === active.parentElement?.textContent)
      ?.querySelector("select")
      ?.focus();
}

function select(label: string, tensor: Tensor, current: number, pick: (dim: number) => void): HTMLElement {
  const options = tensor.shape.map((size, dim) =>
    h("option", { text: `dim ${dim} (${size})`, attrs: { value: String(dim), ...(dim === current ? { selected: "" } : {}) } }),
  );
  const box = h(
    "select",
    { attrs: { "aria-label": `${label} of ${tensor.name}` }, on: { change: () => pick(Number(box.value)) } },
    ...options,
  );
  return h("label", {}, `${label} `, box);
}

function slider(host: HTMLElement, tensor: Tensor, mapping: Mapping, dim: number, choose: Choose): HTMLElement {
  const range = h("input", {
    attrs: {
      type: "range",
      min: "0",
      max: String(tensor.shape[dim] - 1),
      "aria-label": `Index in dimension ${dim} of ${tensor.name}`,
      "data-dim": String(dim),
    },
    on: { input: () => choose(chosen()) },
  });
  range.value = String(mapping.fixed[dim]);
  /** This slider's index is the reader's from now on; others that were moved before stay theirs. */
  const chosen = (): MapChoice => {
    range.dataset["moved"] = "";
    const moved = [...host.querySelectorAll<HTMLInputElement>("input[data-moved]")];
    const [fixed, follows] = [[...mapping.fixed], [...mapping.follows]];
    for (const slider of moved) {
      fixed[Number(slider.dataset["dim"])] = Number(slider.value);
      follows[Number(slider.dataset["dim"])] = false;
    }
    return choiceOf({ ...mapping, fixed, follows });
  };
  return h("label", {}, `dim ${dim} `, range, h("output", { text: String(mapping.fixed[dim]) }));
}

function moveSliders(host: HTMLElement, { fixed }: Mapping): void {
  for (const range of host.querySelectorAll<HTMLInputElement>("input[data-dim]")) {
    range.value = String(fixed[Number(range.dataset["dim"])]);
    (range.nextElementSibling as HTMLElement).textContent = range.value;
  }
}
