// The page: decode the data, mount one view per section, keep them in step with the state.
import { App, type Mount } from "./app";
import { load } from "./data/load";
import { h } from "./dom";
import { installKeys } from "./keys";
import { Store } from "./state";
import { mountFindings } from "./views/findings";
import { mountFlame, treeTable } from "./views/flame/index";
import { applyTheme, mountHeader } from "./views/header";
import { mountProvenance } from "./views/provenance";
import { mountRoofline } from "./views/roofline/index";
import { mountSteps } from "./views/steps";
import { extraFacts, extraTables } from "./views/tables/extra";
import { mountTables } from "./views/tables/index";
import { mountTimeline } from "./views/timeline/index";

interface Section {
  id: string;
  title: string;
  mount: Mount;
  modes: string;
}

const SECTIONS: Section[] = [
  { id: "findings", title: "What to change", mount: mountFindings, modes: "report" },
  { id: "steps", title: "Steps and categories", mount: mountSteps, modes: "report" },
  { id: "timeline", title: "Timeline", mount: mountTimeline, modes: "report diff gantt" },
  { id: "flame", title: "Call tree", mount: mountFlame, modes: "report diff" },
  { id: "tables", title: "Tables", mount: mountTables, modes: "report diff gantt" },
  { id: "roofline", title: "Roofline", mount: mountRoofline, modes: "report" },
  { id: "provenance", title: "How this was made", mount: mountProvenance, modes: "report diff gantt" },
];

async function start(): Promise<void> {
  const root = document.getElementById("app") as HTMLElement;
  const source = document.getElementById("data") as HTMLElement;
  root.append(h("p", { class: "loading", text: "Reading the trace …", attrs: { role: "status" } }));
  const decoded = await load(source.textContent ?? "");
  source.remove();
  const store = new Store(location.hash || decoded.header.start);
  applyTheme(store.get("theme"));
  const app = new App(decoded, store);
  if (app.scene) {
    // The flame graph's twin among the tables; it follows the flame graph's own choices.
    extraTables.set("call_tree", treeTable);
    extraFacts.set("call_tree", { key: ({ store }) => `${store.get("weight")} ${store.get("context")}` });
  }
  root.replaceChildren();
  const header = h("header", { id: "top" });
  root.append(header);
  const views = [mountHeader(header, app)];
  const main = h("main");
  root.append(main);
  for (const section of SECTIONS.filter(({ modes }) => modes.includes(decoded.header.mode))) {
    const body = h("div", { class: "body" });
    const title = h("h2", { text: section.title, id: `${section.id}-title` });
    main.append(h("section", { id: section.id, attrs: { "aria-labelledby": title.id } }, title, body));
    views.push(section.mount(body, app));
  }
  store.listen((changed) => {
    if (changed.has("theme")) {
      applyTheme(store.get("theme"));
      app.palette.refresh();
    }
    for (const view of views) view.update(changed);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    app.palette.refresh();
    for (const view of views) view.update(new Set(["theme"]));
  });
  installKeys(app);
  // For the console, and for whoever wants to script the page: warplens.table("kernels"), warplens.store.set(…).
  (window as unknown as { warplens: App }).warplens = app;
  document.documentElement.dataset["ready"] = "true";
}

start().catch((error: unknown) => {
  const text = `This report cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
  document.getElementById("app")?.replaceChildren(h("p", { class: "failed", text, attrs: { role: "alert" } }));
});
