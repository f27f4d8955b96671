// Two traces' call trees compared: the ± flame graph.
import type { App } from "../../app";
import { choice, press } from "../../../shared/dom";
import { formatCount } from "../../../shared/format";
import { comparedBy, diffLook, leftOut, signed, type Width } from "./diff";
import type { Look } from "./facts";
import { empty, labelled, type Picture, type Source } from "./source";
import { diffProfiles, foldedDiffText, speedscopeText } from "./stacks";
import { ROOT } from "./tree";

const TREE = "diff_tree";
const NO_TREE = "No call trees to compare. Of two jobs, warplens diff A B --rank N compares those of one rank.";
const CHOICES: [Width, string][] = [
  ["b", "B"],
  ["a", "A"],
  ["delta", "|Δ|"],
];

export function comparisonSource(app: App): Source {
  const { store } = app;
  const hasTree = app.hasTable(TREE) && app.wholeTable(TREE).rows > 1;
  const looks = new Map<Width, Look>();
  const width = (): Width => CHOICES.find(([candidate]) => candidate === store.get("weight"))?.[0] ?? "b";
  const look = (): Look => {
    const by = width();
    let look = looks.get(by);
    if (!look) looks.set(by, (look = diffLook(app.wholeTable(TREE), by)));
    return look;
  };
  const titled = CHOICES.map(([choice, text]) => [choice, text, hasTree ? comparedBy(app.wholeTable(TREE)).widths[choice] : ""] as const);
  const group = choice("Width", titled, width(), (weight) => store.set({ weight }));
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
  const { what, unit, widths, text: shown } = comparedBy(table);
  if (!(look.frames.width[ROOT] > 0)) return empty(width === "delta" ? "Nothing changed between A and B." : "No GPU work in this trace.");
  const [a, b] = [table.number(`a_${unit}`, 0), table.number(`b_${unit}`, 0)];
  const text = [
    `${what === "calls" ? "Calls" : what}: A ${shown(a)}, B ${shown(b)}, Δ ${signed(b - a, shown)}; ${formatCount(table.rows)} call paths.`,
    widths[width],
    leftOut(table, look.frames),
  ];
  return { look, text: text.filter(Boolean).join(" ") };
}
