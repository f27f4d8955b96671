// The page of compiled kernels: decode, mount the views, keep them in step with the state.
import { h } from "../dom";
import { App, type View } from "./app";
import { load } from "./data";
import { mountDock } from "./dock";
import { mountHead } from "./head";
import { installKeys } from "./keys";
import { Layout } from "./layout";
import { Store } from "./state";

async function start(): Promise<void> {
  const root = document.getElementById("app") as HTMLElement;
  const source = document.getElementById("data") as HTMLElement;
  root.append(h("p", { class: "loading", text: "Reading the texts …", attrs: { role: "status" } }));
  const page = await load(source.textContent ?? "");
  source.remove();
  if (!page.header.checks.length) {
    root.replaceChildren(h("p", { class: "empty", text: "Nothing was compiled." }));
    document.documentElement.dataset["ready"] = "true";
    return;
  }
  const store = new Store();
  applyTheme(store.get("theme"));
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
    if (changed.has("theme")) applyTheme(store.get("theme"));
    for (const view of views) view.update(changed);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const view of views) view.update(new Set(["theme"]));
  });
  installKeys(app, layout);
  // For the console, and for whoever wants to script the page.
  (window as unknown as { warplens: App }).warplens = app;
  performance.mark("ready");
  document.documentElement.dataset["ready"] = "true";
}

function applyTheme(theme: string): void {
  if (theme) document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
}

start().catch((error: unknown) => {
  const text = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
  document.getElementById("app")?.replaceChildren(h("p", { class: "failed", text, attrs: { role: "alert" } }));
});
