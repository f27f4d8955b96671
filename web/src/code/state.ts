// What the reader has chosen, in the address after #.
import { AddressStore } from "../shared/address";

const DEFAULTS = {
  theme: "", // "", light or dark
  check: "0", // place among the compilations of the page
  stages: "", // texts beside the Python, by their kinds with dots between; "": the usual ones
  tab: "python", // what a narrow window shows: python or the kind of a text
  line: "", // the chosen line of Python: number of its file, dot, line
  raw: "", // "1": with debug information
  sizes: "", // widths of the columns as shares, with dots between
  facts: "", // "0": what is known of the line is folded away
};
export type State = typeof DEFAULTS;
export type Key = keyof State;
export type Changed = ReadonlySet<Key>;

export class Store extends AddressStore<State> {
  constructor() {
    super(DEFAULTS);
  }
}
