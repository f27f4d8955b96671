// Making elements. Text goes in as text only: nothing from a trace is ever parsed as HTML.

type Child = Node | string | null | undefined | false;
type Handlers = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

export interface Options {
  class?: string;
  id?: string;
  title?: string;
  text?: string;
  attrs?: Record<string, string>;
  on?: Handlers;
}

/** `h("button", { class: "small", text: "Copy", on: { click } })` */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, options: Options = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (element instanceof HTMLButtonElement) element.type = "button";
  if (options.class) element.className = options.class;
  if (options.id) element.id = options.id;
  if (options.title) element.title = options.title;
  if (options.text !== undefined) element.textContent = options.text;
  for (const [name, value] of Object.entries(options.attrs ?? {})) element.setAttribute(name, value);
  for (const [name, handler] of Object.entries(options.on ?? {})) {
    element.addEventListener(name, handler as EventListener);
  }
  append(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG: `s("circle", { r: 4 })`. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attrs: Record<string, string | number> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attrs)) element.setAttribute(name, String(value));
  append(element, children);
  return element;
}

function append(element: Element, children: Child[]): void {
  for (const child of children) if (child) element.append(child);
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
}

/** A group of buttons of which one is pressed; arrow keys move between them. */
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [value: T, text: string, title?: string])[],
  current: T,
  choose: (value: T) => void,
): HTMLElement {
  const buttons = options.map(([value, text, title]) =>
    h("button", {
      text,
      ...(title ? { title } : {}),
      attrs: { "aria-pressed": String(value === current), "data-value": value },
      on: { click: () => choose(value) },
    }),
  );
  return h("span", { class: "choice", attrs: { role: "group", "aria-label": label } }, ...buttons);
}

/** Marks the pressed button of a `choice`. */
export function press(group: HTMLElement, current: string): void {
  for (const button of group.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset["value"] === current));
  }
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // From file:// the clipboard may be closed to scripts; the old way still works.
    const area = h("textarea", { class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Offers a text as a file to save. */
export function save(name: string, type: string, content: string | Blob): void {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  const link = h("a", { attrs: { href: url, download: name } });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const IDLE_MS = 1000;

/** Runs something once the page is drawn and nothing else waits. */
export function whenIdle(run: () => void): void {
  if ("requestIdleCallback" in window) window.requestIdleCallback(run, { timeout: IDLE_MS });
  else setTimeout(run, IDLE_MS);
}
