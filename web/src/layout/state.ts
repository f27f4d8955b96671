// What the reader of layouts has chosen. Keys and spellings are those of every link ever shared: they stay.
import { count, oneOf, position } from "../shared/codecs";
import { Store as AnyStore, type KeyOf } from "../shared/store";
import { theme } from "../shared/theme";

/** What the tiles are numbered and coloured by; "": banks of a tile in memory, threads of one over threads. */
export const SHOWN = ["", "conflicts", "bank", "offset", "thread", "warp", "lane", "register"] as const;
export type Shown = (typeof SHOWN)[number];

export const CODECS = {
  theme,
  show: oneOf<Shown>(SHOWN),
  access: count(0), // place among the accesses
  wave: count(0), // place among the wavefronts of the access
  pick: position(), // the number that is framed: a bank, a thread …
};
export type Key = KeyOf<typeof CODECS>;
export type Changed = ReadonlySet<Key>;

export class Store extends AnyStore<typeof CODECS> {
  constructor() {
    super(CODECS);
  }
}
