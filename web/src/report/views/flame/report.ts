// One trace's call tree: GPU or CPU time, three orders, four contexts.
import type { App } from "../../app";
import { CODECS } from "../../state";
import { choice, h, press } from "../../../shared/dom";
import type { Scene } from "../../data/scene";
import { formatCount, formatNs, formatPercent } from "../../../shared/format";
import { chosenOf, framesFor, isKept, mergedFor, type Chosen, type Order, type Weight } from "./build";
import { timeText } from "./facts";
import type { Frames } from "./frames";
import { treeLook, type Measure } from "./look";
import { kindsOf, NO_LAUNCH, possibleContexts, type Context } from "./paths";
import { disable, empty, labelled, stemOf, type Picture, type Source } from "./source";
import { firstNote, sentence } from "../tables/empty";
import { foldedText, speedscopeText } from "./stacks";
import { ROOT, type Tree } from "./tree";

const WEIGHTS: [Weight, string, string][] = [
  ["gpu", "GPU time", "Time of kernels and copies, booked on who launched them"],
  ["cpu", "CPU time", "Time of the host's own calls, less the calls inside them"],
];
const MEASURES: Record<Weight, Measure> = {
  gpu: { weightText: "GPU time", countText: "kernels and copies", text: timeText },
  cpu: { weightText: "CPU time", countText: "host calls", text: timeText },
};
export const ORDERS: [Order, string, string][] = [
  ["left", "Left-heavy", "Equal paths are one frame, the heaviest on the left"],
  ["time", "Time order", "One call after the other, as they ran; neighbours of the same path are one frame"],
  ["inverted", "Inverted", "On top what the time was spent in, below it who called it"],
];
export const CONTEXT_NAMES: [Context, string, string][] = [
  ["module", "Modules", "nn.Module calls and ops"],
  ["python", "Python", "Python frames, modules, annotations and ops"],
  ["op", "Ops", "Ops alone"],
  ["annotation", "Annotations", "Annotations and ops"],
];
/** What a context needs, and how PyTorch records it. */
const WHY_NOT: Record<Context, [what: string, how: string]> = {
  module: ["no nn.Module calls", ": record with with_stack=True"],
  python: ["no Python frames", ": record with with_stack=True"],
  annotation: ["no annotations", ": mark phases with record_function"],
  op: ["no ops", ""],
};
const HOST_KINDS = ["python", "module", "annotation", "op", "runtime"];
// Events that take about 100 ms on a slow machine.
const SLOW_GPU_EVENTS = 40_000;
const SLOW_HOST_EVENTS = 60_000;

export function reportSource(app: App, scene: Scene): Source {
  const { store } = app;
  const chosen = (): Chosen => chosenOf(app, scene);
  const frames = (): Frames => framesFor(scene, app.selection, chosen());
  const forFiles = (): Frames => framesFor(scene, app.selection, { ...chosen(), order: chosen().order === "time" ? "time" : "left" });
  const groups = {
    weight: choice("Weight", WEIGHTS, chosen().weight, (weight) => store.set({ weight, zoom: CODECS.zoom.initial })),
    order: choice("Order", ORDERS, chosen().order, (order) => store.set({ order, zoom: CODECS.zoom.initial })),
    context: choice("Callers", CONTEXT_NAMES, chosen().context, (context) => store.set({ context, zoom: CODECS.zoom.initial })),
  };
  disableImpossible(groups, app, scene);
  const stem = stemOf(app);
  return {
    controls: [labelled("Weight", groups.weight), labelled("Order", groups.order), labelled("Callers", groups.context)],
    keys: ["weight", "order", "context", "steps", "range"],
    sync: () => (["weight", "order", "context"] as const).forEach((key) => press(groups[key], chosen()[key])),
    isSlow: () => !isKept(app.selection, chosen()) && isMuch(app, scene, chosen()),
    make: () => pictureOf(app, scene, chosen(), frames()),
    title: () => `${chosen().weight.toUpperCase()} time by call path: ${stem}, ${app.selection.text}`,
    fileStem: () => `${stem}.${chosen().weight}.${chosen().context}`,
    folded: () => foldedText(forFiles()),
    speedscope: () => {
      const shown = forFiles();
      return speedscopeText(shown, stem, [{ name: `${chosen().weight.toUpperCase()} time of ${stem}`, own: (frame) => shown.self[frame] }]);
    },
  };
}

function isMuch(app: App, scene: Scene, { weight, order }: Chosen): boolean {
  if (weight === "cpu") return scene.count > SLOW_HOST_EVENTS;
  return app.selection.events.length * (order === "left" ? 1 : 2) > SLOW_GPU_EVENTS;
}

function disableImpossible(groups: Record<"weight" | "context", HTMLElement>, app: App, scene: Scene): void {
  const possible = possibleContexts(scene);
  const impossible = CONTEXT_NAMES.map(([context]) => context).filter((context) => !possible.has(context));
  const why = (context: Context): string => `${WHY_NOT[context][0]} in this trace${isPyTorch(app) ? WHY_NOT[context][1] : ""}`;
  disable(groups.context, Object.fromEntries(impossible.map((context) => [context, why(context)])));
  const hasHost = HOST_KINDS.some((kind) => kindsOf(scene).has(kind));
  disable(groups.weight, {
    gpu: scene.hasGpu ? "" : "no GPU work in this trace",
    cpu: hasHost ? "" : "no host events in this trace",
  });
}

function pictureOf(app: App, scene: Scene, chosen: Chosen, frames: Frames): Picture {
  const { weight, context } = chosen;
  if (!(frames.width[ROOT] > 0)) return nothing(app, scene, weight);
  const look = treeLook(frames, MEASURES[weight], app.palette);
  const text = [
    `${formatNs(frames.width[ROOT])} of ${look.weightText} in ${formatCount(frames.count[ROOT])} ${look.countText}, ${app.selection.text}; ${formatCount(frames.size)} frames.`,
    ...(weight === "gpu" ? unlaunched(mergedFor(scene, app.selection, chosen).tree) : []),
    ...withoutStacks(app, scene, context),
  ];
  return { look, text: text.join(" ") };
}

function nothing(app: App, scene: Scene, weight: Weight): Picture {
  const where = app.selection.whole ? "this trace" : app.selection.text;
  const to = weight === "gpu" ? "cpu" : "gpu";
  const what = weight === "gpu" ? "No GPU work" : "No host calls";
  if (weight === "cpu" && !scene.hasGpu) return empty(`${what} in ${where}.`);
  const other = h("button", {
    text: `Show ${to.toUpperCase()} time`,
    on: { click: () => app.store.set({ weight: to, zoom: CODECS.zoom.initial }) },
  });
  return empty(`${what} in ${where}.`, other);
}

function unlaunched({ names, name, parent, totalNs }: Tree): string[] {
  const node = name.findIndex((number, candidate) => parent[candidate] === ROOT && names[number] === NO_LAUNCH);
  if (node < 0) return [];
  return [`${formatPercent((100 * totalNs[node]) / totalNs[ROOT])} of it has no recorded launch, so its caller is unknown.`];
}

function withoutStacks(app: App, scene: Scene, context: Context): string[] {
  const possible = possibleContexts(scene);
  if (context === "module" || possible.has("python") || possible.has("module")) return [];
  if (isPyTorch(app)) return ["No stacks were recorded: with_stack=True adds Python frames and modules."];
  const message = firstNote(app, ["no_python_context", "no_python_tracer", "no_python"]);
  return message ? [sentence(message)] : [];
}

function isPyTorch(app: App): boolean {
  return app.header.facts["format"] === "kineto";
}
