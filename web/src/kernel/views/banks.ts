// A tile in shared memory, bank by bank: what one access reaches, and how padding or a swizzle changes it.
import { h, replace } from "../../shared/dom";
import { formatBytes, formatCount, formatPlural } from "../../shared/format";
import type { App, View } from "../app";
import { BANK_BYTES, BANKS, conflictsOf, passes, sizeOf, swizzleOf, type Direction, type Layout, type Pass } from "../bank_model";
import { colours, heatStep } from "../palette";
import { Picture, type TipText } from "../../shared/picture";
import { boundedBanks, MOST_ROWS, type BankChoice } from "../state";
import { table } from "../../shared/table";

const DIRECTIONS: [Direction, string][] = [
  ["column", "down a column, a lane per row"],
  ["row", "along a row, a lane per element"],
  ["matrix", "8 rows × 16 bytes (ldmatrix)"],
];

export function mountBanks(host: HTMLElement, app: App): View {
  const { store } = app;
  let allPasses: Pass[] = [];
  let passNumber = 0;
  const number = (label: string, id: string, min: number, max: number): HTMLInputElement =>
    h("input", {
      class: "number",
      id,
      attrs: { type: "number", min: String(min), max: String(max), "aria-label": label },
      on: { change: () => save() },
    });
  const rows = number("Rows of the tile", "bank-rows", 1, MOST_ROWS);
  const columns = number("Columns of the tile", "bank-columns", 1, MOST_ROWS);
  const padding = number("Padding after each row, in elements", "bank-padding", 0, 128);
  const bytes = h(
    "select",
    { id: "bank-bytes", attrs: { "aria-label": "Bytes of an element" }, on: { change: () => save() } },
    ...[1, 2, 4, 8].map((size) => h("option", { text: `${size}`, attrs: { value: String(size) } })),
  );
  const direction = h(
    "select",
    { id: "bank-access", attrs: { "aria-label": "How a warp reads the tile" }, on: { change: () => save() } },
    ...DIRECTIONS.map(([value, text]) => h("option", { text, attrs: { value } })),
  );
  const swizzle = h("input", { id: "bank-swizzle", attrs: { type: "checkbox" }, on: { change: () => save() } });
  const take = h("button", { text: "Take the chosen operation's block", on: { click: () => fromOp() } });
  const which = h("input", {
    id: "bank-pass",
    attrs: { type: "range", min: "0", "aria-label": "Pass over the banks" },
    on: { input: () => ((passNumber = Number(which.value)), draw()) },
  });
  const status = h("p", { id: "bank-status", attrs: { role: "status", "aria-live": "polite" } });
  const passStatus = h("p", { class: "small" });
  const picture = new Picture({ label: "", tip: app.tip, describe: (row, bank) => describe(row, bank) });
  const twin = h("div", { class: "scroll" });
  const compared = h("div", { class: "scroll" });
  host.append(
    h("p", {
      class: "quiet",
      text: `${BANKS} banks of ${BANK_BYTES} bytes; lanes that need different words of one bank wait for each other. Calculated from the layout you choose here, not recorded.`,
    }),
    h(
      "div",
      { class: "tools wrap" },
      h("label", {}, "rows ", rows),
      h("label", {}, "columns ", columns),
      h("label", {}, "bytes per element ", bytes),
      h("label", {}, "read ", direction),
      h("label", {}, "padding ", padding),
      h("label", {}, swizzle, " swizzle"),
      take,
    ),
    status,
    h(
      "div",
      { class: "split" },
      h(
        "div",
        {},
        h("label", { class: "small" }, "pass ", which),
        passStatus,
        picture.element,
        h("p", {
          class: "quiet small",
          text: "columns: banks 0–31, rows: 128 bytes each; coloured words are read in this pass, red ones wait for others of the same bank",
        }),
      ),
      h("div", {}, h("h3", { text: "Layouts compared" }), compared, h("details", {}, h("summary", { text: "This pass as a table" }), twin)),
    ),
  );

  function save(): void {
    choose({
      rows: Number(rows.value) || 1,
      columns: Number(columns.value) || 1,
      bytes: Number(bytes.value),
      direction: direction.value as Direction,
      padding: Number(padding.value) || 0,
      swizzle: swizzle.checked,
    });
  }

  /** Shows the layout also where its bounds leave the one that is shown already. */
  function choose(banks: BankChoice): void {
    store.set({ banks: boundedBanks(banks) });
    refresh();
  }

  function fromOp(): void {
    const shape = app.opRow < 0 ? [] : app.shape(app.opRow);
    const pattern = app.opRow < 0 ? undefined : app.launch.patterns[app.launch.events!.pattern[app.opRow]];
    if (!shape.length || !pattern) return void (status.textContent = "Choose a load or a store first.");
    const [tall, wide] = shape.length > 1 ? shape.slice(-2) : [1, shape[0]];
    choose({ ...store.get("banks"), rows: tall, columns: wide, bytes: pattern.itemsize });
  }

  function refresh(): void {
    const now = store.get("banks");
    rows.value = String(now.rows);
    columns.value = String(now.columns);
    bytes.value = String(now.bytes);
    direction.value = now.direction;
    padding.value = String(now.padding);
    swizzle.checked = now.swizzle;
    allPasses = passes(now, now.direction);
    passNumber = Math.min(passNumber, Math.max(0, allPasses.length - 1));
    which.max = String(Math.max(0, allPasses.length - 1));
    which.value = String(passNumber);
    const { vector, perPhase, maxPhase } = swizzleOf(now);
    const how = now.swizzle
      ? ` Swizzle: vectors of ${vector}, ${formatPlural(maxPhase, "phase")} of ${formatPlural(perPhase, "row")}.`
      : "";
    status.textContent = `${formatPlural(conflictsOf(allPasses), "conflict")} in ${formatCount(allPasses.length)} passes over the banks to read the tile once; it takes ${formatBytes(sizeOf(now))}.${how}`;
    compare(now);
    draw();
  }

  function compare(now: BankChoice): void {
    const pad = Math.max(1, Math.round(BANK_BYTES / now.bytes));
    const vector = swizzleOf(now).vector;
    const kinds: [string, Partial<Layout>][] = [
      ["plain", { padding: 0, swizzle: false }],
      [`padding of ${pad}`, { padding: pad, swizzle: false }],
      [`padding of ${vector} (16 bytes)`, { padding: vector, swizzle: false }],
      ["swizzle", { padding: 0, swizzle: true }],
    ];
    const lines = kinds
      .filter(([name], at) => kinds.findIndex(([other]) => other === name) === at)
      .map(([name, change]) => {
        const other = { ...now, ...change };
        return [name, ...DIRECTIONS.map(([access]) => formatCount(conflictsOf(passes(other, access)))), formatCount(sizeOf(other))];
      });
    replace(compared, table(["Layout", "column", "row", "8 × 16 bytes", "Bytes"], lines));
  }

  function draw(): void {
    const now = store.get("banks");
    const pass = allPasses[passNumber];
    if (!pass) return;
    const high = Math.max(1, Math.ceil(sizeOf(now) / (BANKS * BANK_BYTES)));
    picture.fit(high, BANKS, 512, 320, 14);
    const { ground, heat, line, bad } = colours();
    const cells = new Uint8Array(picture.cellRows * picture.cellColumns);
    const words = [...new Set(pass.lanes.flatMap((lane) => lane.words))];
    const seen = new Set<number>();
    for (const word of words) {
      const bank = word % BANKS;
      const cell = picture.cellOf(Math.floor(word / BANKS), bank);
      cells[cell] = Math.max(cells[cell], seen.has(bank) ? 2 : 1);
      seen.add(bank);
    }
    picture.paint(
      Uint32Array.from(cells, (state) => [ground, heat[heatStep(0.5)], bad][state]),
      line,
    );
    const fullest = Math.max(...pass.perBank);
    passStatus.textContent = `Pass ${passNumber + 1} of ${formatCount(allPasses.length)}: ${formatPlural(pass.lanes.length, "lane")}, ${formatPlural(words.length, "word")}, the fullest bank has ${fullest}: ${formatPlural(pass.conflicts, "conflict")}.`;
    picture.label(`Shared memory by bank. ${passStatus.textContent} The table beside it lists every lane.`);
    replace(
      twin,
      table(
        ["Lane", "Row", "Column", "Words", "Banks"],
        pass.lanes.map((lane) => [
          String(lane.lane),
          String(lane.row),
          String(lane.column),
          lane.words.join(" "),
          lane.words.map((word) => word % BANKS).join(" "),
        ]),
      ),
    );
  }

  function describe(row: number, bank: number): TipText {
    const word = row * BANKS + bank;
    const readers = (allPasses[passNumber]?.lanes ?? []).filter((lane) => lane.words.includes(word));
    const inBank = allPasses[passNumber]?.perBank[bank] ?? 0;
    return {
      title: `bank ${bank}, word ${word}`,
      lines: [
        ...readers.slice(0, 4).map((lane) => `lane ${lane.lane}: row ${lane.row}, column ${lane.column}`),
        `${formatPlural(inBank, "word")} of this bank in the pass`,
      ],
    };
  }

  refresh();
  return {
    update(changed) {
      if (changed.has("banks")) refresh();
      else if (changed.has("theme")) draw();
    },
  };
}
