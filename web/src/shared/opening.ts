// How a page opens: a line while they read, the data that stands in the page, a line where it cannot be shown.
import { h } from "./dom";

/** The page's place and its data, which is taken out of the document. */
export async function opened<Data>(what: string, load: (text: string) => Promise<Data>): Promise<[HTMLElement, Data]> {
  const root = document.getElementById("app") as HTMLElement;
  const source = document.getElementById("data") as HTMLElement;
  root.append(h("p", { class: "loading", text: `Reading the ${what} …`, attrs: { role: "status" } }));
  const data = await load(source.textContent ?? "");
  source.remove();
  return [root, data];
}

export function nothing(root: HTMLElement, text: string): void {
  root.replaceChildren(h("p", { class: "empty", text }));
  document.documentElement.dataset["ready"] = "true";
}

/** `app` is for the console and for scripts: warplens.store.set(…), on a report warplens.table("kernels"). */
export function ready(app: object): void {
  (window as unknown as { warplens: object }).warplens = app;
  performance.mark("ready");
  document.documentElement.dataset["ready"] = "true";
}

export function failed(error: unknown): void {
  const text = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
  document.getElementById("app")?.replaceChildren(h("p", { class: "failed", text, attrs: { role: "alert" } }));
}
