// The top: which kernel, for which GPU and config, and the figures of the whole kernel.
import { h, replace } from "../shared/dom";
import { formatPlural } from "../shared/format";
import type { App, View } from "./app";
import type { CodeHeader } from "../shared/generated/records";
import { helpButton } from "../shared/help";
import { themeButton } from "../shared/theme";

type Packed = CodeHeader["checks"][number];

export function mountHead(host: HTMLElement, app: App): View {
  const { store } = app;
  const heading = h("h1");
  const target = h("span", { class: "badge" });
  const facts = h("p", { class: "facts" });
  const config = h("p", { class: "quiet config" });
  const failure = h("p", { class: "failure", attrs: { role: "alert", hidden: "" } });
  const picker = checkPicker(app);
  const all = allChecks(app);
  host.append(
    h(
      "div",
      { class: "bar" },
      h("div", { class: "tools" }, heading, target, picker, all),
      h("div", { class: "tools" }, themeButton(store), helpButton()),
    ),
    facts,
    config,
    failure,
  );

  const show = (): void => {
    const { plain } = app.check;
    heading.textContent = plain.kernel;
    target.textContent = plain.target;
    replace(
      facts,
      ...plain.facts.map(({ name, value, meaning, is_bad }) =>
        h("span", { title: meaning, class: is_bad ? "warning" : "" }, h("span", { class: "quiet", text: `${name} ` }), value),
      ),
    );
    const launched = plain.launches ? ` · launched ${formatPlural(plain.launches, "time")}` : "";
    config.textContent = `${plain.config} · (${plain.signature}) · ${plain.compiler}, ${plain.seconds.toFixed(1)} s to compile${launched}`;
    config.title = config.textContent;
    failure.hidden = !plain.failure;
    failure.textContent = plain.failure
      ? `It does not compile${plain.failure_place ? ` (${app.placeText(plain.failure_place)})` : ""}: ${plain.failure}`
      : "";
    if (picker) picker.querySelector("select")!.value = String(app.checkNumber);
  };
  show();
  return {
    update(changed) {
      if (changed.has("check")) show();
    },
  };
}

function checkPicker(app: App): HTMLElement | null {
  const { checks } = app.page.header;
  if (checks.length < 2) return null;
  const several = new Set(checks.map(({ kernel }) => kernel)).size > 1;
  const same = new Set(parts(checks[0]).filter((part) => checks.every((check) => parts(check).includes(part))));
  const options = checks.map((check, at) => h("option", { text: optionText(check, several, same), attrs: { value: String(at) } }));
  const select = h("select", { id: "check", on: { change: () => app.store.set({ check: Number(select.value) }) } }, ...options);
  return h("label", { class: "picker" }, h("span", { text: "Compilation " }), select);
}

function parts({ config }: Packed): string[] {
  return config.split(", ").filter(Boolean);
}

/** Only what distinguishes it from the others. */
function optionText(check: Packed, withKernel: boolean, same: ReadonlySet<string>): string {
  const own = parts(check).filter((part) => !same.has(part));
  const state = check.failure
    ? " – does not compile"
    : check.suggestions.length
      ? ` – ${formatPlural(check.suggestions.length, "suggestion")}`
      : "";
  const names = [...(withKernel ? [check.kernel] : []), check.target, ...(own.length ? [own.join(", ")] : [])];
  return names.join(" · ") + state;
}

/** A table of every compilation's figures, to compare them. */
function allChecks(app: App): HTMLElement | null {
  const { checks } = app.page.header;
  if (checks.length < 2) return null;
  const names = [...new Set(checks.flatMap(({ facts }) => facts.map(({ name }) => name)))];
  const dialog = h("dialog", { id: "all", attrs: { "aria-labelledby": "all-title" } });
  const rows = checks.map((check, at) => {
    const pick = h("button", { class: "link", text: `${check.kernel} on ${check.target}` });
    pick.addEventListener("click", () => {
      dialog.close();
      app.store.set({ check: at });
    });
    const cells = names.map((name) => {
      const fact = check.facts.find((candidate) => candidate.name === name);
      return h("td", { text: fact?.value ?? "", class: fact?.is_bad ? "warning" : "" });
    });
    const result = check.failure ? "does not compile" : check.suggestions.map(({ code }) => code).join(" ");
    return h(
      "tr",
      {},
      h("th", { attrs: { scope: "row" } }, pick, h("div", { class: "quiet", text: check.config })),
      ...cells,
      h("td", { text: result }),
    );
  });
  const heads = ["", ...names, "suggestions"].map((text) => h("th", { text, attrs: { scope: "col" } }));
  const close = h("button", { text: "Close", on: { click: () => dialog.close() } });
  dialog.append(
    h("h2", { id: "all-title", text: "All compilations" }),
    h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows))),
    close,
  );
  document.body.append(dialog);
  return h("button", {
    text: "Compare all",
    attrs: { "aria-haspopup": "dialog" },
    on: { click: () => dialog.showModal() },
  });
}
