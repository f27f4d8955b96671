// The page of compiled kernels: decode, mount the views, keep them in step with the state.
import { followTheme } from "../shared/theme";
import { h } from "../shared/dom";
import { failed, nothing, opened, ready } from "../shared/opening";
import { App, type View } from "./app";
import { load } from "./data";
import { mountDock } from "./dock";
import { mountHead } from "./head";
import { installKeys } from "./keys";
import { Layout } from "./layout";
import { Store } from "./state";

async function start(): Promise<void> {
  const [root, page] = await opened("texts", load);
  if (!page.header.checks.length) return nothing(root, "Nothing was compiled.");
  const store = new Store();
  followTheme(
    store,
    () => undefined,
    () => views.forEach((view) => view.update(new Set(["theme"]))),
  );
  const app = new App(page, store);
  const header = h("header", { id: "top" });
  const main = h("main");
  const dock = h("section", { id: "dock", attrs: { "aria-label": "What is known of the line" } });
  root.replaceChildren(header, main, dock);
  const layout = new Layout(main, app);
  const views: View[] = [mountHead(header, app), layout, mountDock(dock, app)];
  layout.follow();
  store.listen((changed) => {
    if (changed.has("check")) app.refresh();
    for (const view of views) view.update(changed);
  });
  installKeys(app, layout);
  ready(app);
}

start().catch(failed);
