// Two traces' call trees compared: the ± flame graph.
import type { App } from "../../app";
import { choice, press } from "../../dom";
import { formatCount, formatNs } from "../../format";
import { diffContext, diffLook, leftOut, signed, WIDTHS, type Width } from "./diff";
import type { Look } from "./facts";
import { empty, labelled, type Picture, type Source } from "./source";
import { diffProfiles, foldedDiffText, speedscopeText } from "./stacks";
import { ROOT } from "./tree";

const TREE = "diff_tree";
const NO_TREE =
  "No call trees to compare: a report holds no call paths. Give the two traces to warplens diff instead of their reports.";
const CHOICES: [Width, string, string][] = [
  ["b", "B", WIDTHS.b],
  ["a", "A", WIDTHS.a],
  ["delta", "|Δ|", WIDTHS.delta],
];

export function comparisonSource(app: App): Source {
  const { store } = app;
  const hasTree = app.hasTable(TREE) && app.wholeTable(TREE).rows > 1;
  const looks = new Map<Width, Look>();
  const width = (): Width => (store.get("weight") in WIDTHS ? (store.get("weight") as Width) : "b");
  const look = (): Look => {
    const by = width();
    let made = looks.get(by);
    if (!made) looks.set(by, (made = diffLook(app.wholeTable(TREE), by)));
    return made;
  };
  const group = choice("Width", CHOICES, width(), (weight) => store.set({ weight }));
  return {
    controls: hasTree ? [labelled("Width", group)] : [],
    keys: ["weight"],
    sync: () => press(group, width()),
    isSlow: () => false,
    make: () => (hasTree ? pictureOf(app, look(), width()) : empty(NO_TREE)),
    title: () => `${app.header.title}: ${look().weightText} by call path`,
    fileStem: () => `diff.${width()}`,
    folded: () => foldedDiffText(look().frames, app.wholeTable(TREE)),
    speedscope: () => speedscopeText(look().frames, app.header.title, diffProfiles(look().frames, app.wholeTable(TREE))),
  };
}

function pictureOf(app: App, look: Look, width: Width): Picture {
  const table = app.wholeTable(TREE);
  if (!(look.frames.width[ROOT] > 0)) return empty(width === "delta" ? "Nothing changed between A and B." : "No GPU work in this trace.");
  const ns = (column: string): number => table.number(column, 0) * 1000;
  const text = [
    `GPU time by ${diffContext(table)}: A ${formatNs(ns("a_us"))}, B ${formatNs(ns("b_us"))}, Δ ${signed(table.number("delta_us", 0))}; ${formatCount(table.rows)} call paths.`,
    WIDTHS[width],
    leftOut(table, look.frames),
  ];
  return { look, text: text.filter(Boolean).join(" ") };
}
