// The page: decode the data, mount one view per section, keep them in step with the state.
import { failed, opened, ready } from "../shared/opening";
import { followTheme } from "../shared/theme";
import { App, type Mount } from "./app";
import { load } from "./data/load";
import { hasServing } from "./data/serving";
import { h } from "../shared/dom";
import { installKeys } from "./keys";
import { Store } from "./state";
import { hasCategories, mountCategories } from "./views/categories";
import { mountChanges } from "./views/changes";
import { mountFindings } from "./views/findings";
import { mountFlame, treeTable } from "./views/flame/index";
import { sumsTable } from "./views/flame/sums";
import { mountHeader } from "./views/header";
import { mountHeatMap, mountWaits } from "./views/job/heatmap";
import { hasPipeline, mountPipeline } from "./views/job/pipeline";
import { mountScatter } from "./views/job/scatter";
import { mountJobTimeline } from "./views/job/timeline";
import { mountProvenance } from "./views/provenance";
import { StickyBar } from "./views/sticky";
import { mountRoofline } from "./views/roofline/index";
import { mountServing } from "./views/serving";
import { mountSteps } from "./views/steps";
import { extraFacts, extraTables, tableFor } from "./views/tables/extra";
import { mountTables } from "./views/tables/index";
import { countersOf } from "./views/timeline/counters";
import { mountTimeline } from "./views/timeline/index";

interface Section {
  id: string;
  title: string;
  mount: Mount;
  modes: string;
  /** Whether this profile has anything for it. */
  has?: (app: App) => boolean;
}

/** A job's findings are about its ranks, a snapshot's about memory; where there is none, the verdict says so. */
function hasFindings(app: App): boolean {
  return app.header.mode === "report" || (app.hasTable("findings") && app.wholeTable("findings").rows > 0);
}

const SECTIONS: Section[] = [
  { id: "changes", title: "What changed", mount: mountChanges, modes: "diff" },
  { id: "timeline", title: "Timeline", mount: mountTimeline, modes: "report diff gantt", has: ({ hasTimeline }) => hasTimeline },
  { id: "timeline", title: "Timeline of the ranks", mount: mountJobTimeline, modes: "job" },
  { id: "timeline", title: "Memory over time", mount: mountTimeline, modes: "paths", has: (app) => countersOf(app).length > 0 },
  { id: "serving", title: "Serving", mount: mountServing, modes: "report", has: hasServing },
  { id: "findings", title: "What to change", mount: mountFindings, modes: "report job paths", has: hasFindings },
  { id: "steps", title: "Steps and categories", mount: mountSteps, modes: "report" },
  { id: "categories", title: "Where the time goes", mount: mountCategories, modes: "paths", has: hasCategories },
  { id: "heatmap", title: "Ranks and steps", mount: mountHeatMap, modes: "job", has: (app) => app.hasTable("rank_steps") },
  { id: "waits", title: "Who waited for whom", mount: mountWaits, modes: "job", has: (app) => app.hasTable("waits") },
  { id: "scatter", title: "Collectives by size and speed", mount: mountScatter, modes: "job", has: (app) => app.hasTable("collectives") },
  { id: "pipeline", title: "Pipeline by microbatch", mount: mountPipeline, modes: "job", has: hasPipeline },
  {
    id: "flame",
    title: "Call tree",
    mount: mountFlame,
    modes: "report diff paths",
    has: (app) => app.header.mode !== "paths" || sumsTable(app) !== null,
  },
  { id: "tables", title: "Tables", mount: mountTables, modes: "report diff gantt paths job" },
  { id: "roofline", title: "Roofline", mount: mountRoofline, modes: "report" },
  { id: "provenance", title: "How this was made", mount: mountProvenance, modes: "report diff gantt paths job" },
];

async function start(): Promise<void> {
  const [root, decoded] = await opened("trace", load);
  const store = new Store(decoded.header.start);
  followTheme(
    store,
    () => app.palette.refresh(),
    () => views.forEach((view) => view.update(new Set(["theme"]))),
  );
  const app = new App(decoded, store);
  if (app.scene) {
    // The flame graph's twin among the tables; it follows the flame graph's own choices.
    extraTables.set("call_tree", treeTable);
    extraFacts.set("call_tree", { key: ({ store }) => `${store.get("weight")} ${store.get("context")}` });
  }
  root.replaceChildren();
  const header = h("header", { id: "top" });
  root.append(header);
  const main = h("main");
  const sections = SECTIONS.filter(({ modes, has }) => modes.includes(decoded.header.mode) && (!has || has(app)));
  const bar = new StickyBar(app, sections);
  root.append(bar.element);
  const views = [mountHeader(header, app), bar];
  root.append(main);
  const bodies = sections.map(({ id, title }) => {
    const heading = h("h2", { text: title, id: `${id}-title`, attrs: { tabindex: "-1" } });
    const body = h("div", { class: "body" });
    main.append(h("section", { id, attrs: { "aria-labelledby": heading.id } }, heading, body));
    return body;
  });
  for (const [index, { id, mount }] of sections.entries()) {
    views.push(mount(bodies[index], app));
    // What is seen first is drawn first; the rest follows in the next frame.
    if (id === "timeline") await painted();
  }
  store.listen((changed) => {
    for (const view of views) view.update(changed);
  });
  installKeys(
    app,
    sections.map(({ id }) => id),
  );
  if (store.get("at")) app.reveal(store.get("at"));
  ready(Object.assign(app, { tableFor: (name: string) => tableFor(app, name) }));
}

function painted(): Promise<void> {
  return new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}

start().catch(failed);
