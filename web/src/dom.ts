/** Makes elements. Text is only ever added as text, never parsed as HTML. */

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  set(element, attributes);
  add(element, children);
  return element;
}

function add(parent: Node, children: Iterable<Child>): void {
  for (const child of children) {
    if (child) parent.appendChild(typeof child === "string" ? document.createTextNode(clean(child)) : child);
  }
}

export function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, clean(String(value)));
  }
}

/** Text without control characters, other than line breaks and tabs. */
export function clean(text: string): string {
  return text.replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, "");
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name: string, attributes: Attributes = {}, ...children: Node[]): SVGElement {
  const element = document.createElementNS(SVG, name);
  set(element, attributes);
  element.append(...children);
  return element;
}

/** An icon of 16 by 16 from the path of its lines; of no meaning to a screen reader. */
export function icon(path: string): SVGElement {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    svg("path", { d: path }),
  );
}

/** A block of text that scrolls by itself, which the keyboard must reach. */
export function scroller(label: string, className: string, ...children: Child[]): HTMLElement {
  return h("div", { class: className, tabindex: 0, role: "group", "aria-label": label }, ...children);
}

/** A button that shows the rest of a block, and is not needed after that. */
export function more(label: string, block: HTMLElement, show: () => void): HTMLButtonElement {
  const element = h("button", { type: "button", class: "more" }, label);
  element.addEventListener("click", () => {
    show();
    element.remove();
    block.focus();
  });
  return element;
}

export function button(label: string, className: string, ...children: Child[]): HTMLButtonElement {
  return h("button", { type: "button", class: className, "aria-label": label, title: label }, ...children);
}

/** A text on a button that copies it, or selects it where a page may not copy. */
export function copied(text: string): HTMLButtonElement {
  const element = h("button", { type: "button", class: "copied", title: "Copy" }, text);
  element.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      element.title = "Copied";
      element.classList.add("done");
    } catch {
      getSelection()?.selectAllChildren(element);
    }
  });
  return element;
}
