// A suggestion as text: what was found, what to change, what the change did when it was compiled.
import { h } from "../shared/dom";
import type { CodeSuggestion } from "../shared/generated/records";

export function suggestionBody({ evidence, advice, change, effect, stake }: CodeSuggestion): HTMLElement[] {
  const parts = [h("p", { text: evidence }), h("p", {}, h("span", { class: "quiet", text: "→ " }), advice)];
  if (stake) parts.push(h("p", {}, h("b", { text: stake }), " of measured time is at stake."));
  if (!change) return parts;
  const moved = effect.map(([measure, before, after, verdict]) =>
    h(
      "tr",
      { class: verdict },
      h("th", { text: measure.replaceAll("_", " "), attrs: { scope: "row" } }),
      h("td", { text: before }),
      h("td", { text: "→", attrs: { "aria-label": "becomes" } }),
      h("td", { text: after }),
      h("td", { class: "quiet", text: verdict === "improvement" ? "better" : verdict === "regression" ? "worse" : "" }),
    ),
  );
  parts.push(h("p", {}, "Compiled with ", h("code", { text: change }), moved.length ? ":" : ": no measure moves."));
  if (moved.length) parts.push(h("table", { class: "effect" }, h("tbody", {}, ...moved)));
  return parts;
}
