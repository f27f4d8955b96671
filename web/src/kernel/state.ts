// What the reader has chosen, in the address after #.
import { AddressStore } from "../shared/address";

const DEFAULTS = {
  theme: "", // "", light or dark
  launch: "0", // place among the launches of the page
  program: "", // program number; "": the first traced one
  op: "", // place among the program's operations; "": all of them
  show: "program", // what the maps are coloured by: program, programs, accesses, before, after
  zoom: "", // "program": maps show only what the program touches
  dims: "", // per tensor, by |: "rows.columns", then ".index" of each other dimension ("f": follow the program)
  banks: "", // shared memory: rows.columns.bytes.access.padding.swizzle
};
export type State = typeof DEFAULTS;
export type Key = keyof State;
export type Changed = ReadonlySet<Key>;

export class Store extends AddressStore<State> {
  constructor() {
    super(DEFAULTS);
  }
}
