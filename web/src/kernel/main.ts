// The page of traced kernel launches: decode, mount one view per section, keep them in step with the state.
import { followTheme } from "../shared/theme";
import { h } from "../shared/dom";
import { failed, nothing, opened, ready } from "../shared/opening";
import { App, type Mount, type View } from "./app";
import { load } from "./data";
import { installKeys } from "./keys";
import { forgetColours } from "./palette";
import { Store } from "./state";
import { mountBanks } from "./views/banks";
import { mountDot } from "./views/dot";
import { mountFaults } from "./views/faults";
import { mountHead } from "./views/head";
import { mountOps } from "./views/ops";
import { mountPrograms } from "./views/programs";
import { mountSource } from "./views/source";
import { mountSummary } from "./views/summary";
import { mountTensors } from "./views/tensors";

interface Section {
  id: string;
  title: string;
  mount: Mount;
}
const SECTIONS: Section[] = [
  { id: "faults", title: "Faults", mount: mountFaults },
  { id: "programs", title: "Programs", mount: mountPrograms },
  { id: "ops", title: "Operations of the program", mount: mountOps },
  { id: "source", title: "Source", mount: mountSource },
  { id: "tensors", title: "Tensors", mount: mountTensors },
  { id: "dot", title: "Matrix product", mount: mountDot },
  { id: "summary", title: "Summary", mount: mountSummary },
  { id: "banks", title: "Shared memory", mount: mountBanks },
];

async function start(): Promise<void> {
  const [root, scene] = await opened("trace", load);
  if (!scene.header.launches.length) return nothing(root, "The trace holds no launch of a kernel.");
  const store = new Store();
  followTheme(store, forgetColours, () => views.forEach((view) => view.update(new Set(["theme"]))));
  const app = new App(scene, store);
  const header = h("header", { id: "top" });
  const main = h("main");
  root.replaceChildren(header, main);
  const views: View[] = [mountHead(header, app)];
  for (const { id, title, mount } of SECTIONS) {
    const heading = h("h2", { text: title, id: `${id}-title`, attrs: { tabindex: "-1" } });
    const body = h("div", { class: "body" });
    main.append(h("section", { id, attrs: { "aria-labelledby": heading.id } }, heading, body));
    views.push(mount(body, app));
  }
  store.listen((changed) => {
    if (changed.has("launch")) app.refresh();
    for (const view of views) view.update(changed);
  });
  installKeys(app);
  ready(app);
}

start().catch(failed);
