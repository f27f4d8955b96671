// The page of layouts: decode, mount the controls and a card per tile, keep them in step with the state.
import { followTheme } from "../shared/theme";
import { h } from "../shared/dom";
import { failed, nothing, opened, ready } from "../shared/opening";
import { App, type View } from "./app";
import { mountCompared } from "./compared";
import { load } from "./data";
import { mountHead } from "./head";
import { installKeys } from "./keys";
import { mountPanels } from "./panel";
import { Store } from "./state";

async function start(): Promise<void> {
  const [root, page] = await opened("layouts", load);
  if (!page.panels.length) return nothing(root, "There is no layout to show.");
  const store = new Store();
  followTheme(
    store,
    () => undefined,
    () => views.forEach((view) => view.update(new Set(["theme"]))),
  );
  const app = new App(page, store);
  const header = h("header", { id: "top" });
  const tiles = h("div", { id: "tiles" });
  const compared = h("section", { id: "compared" });
  root.replaceChildren(header, h("main", {}, tiles, compared));
  const views: View[] = [mountHead(header, app), mountPanels(tiles, app)];
  mountCompared(compared, app);
  store.listen((changed) => views.forEach((view) => view.update(changed)));
  installKeys(app);
  ready(app);
}

start().catch(failed);
