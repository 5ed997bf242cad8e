/** Shows Markdown. The library only parses it: elements are made here, from a list of those allowed. */

import MarkdownIt from "markdown-it";
import { ansi, stripped } from "./ansi";
import { h, scroller } from "./dom";

type Token = ReturnType<InstanceType<typeof MarkdownIt>["parse"]>[number];

/** The elements that Markdown has. Headings are those of the page's own structure only. */
const ELEMENTS: Record<string, keyof HTMLElementTagNameMap> = {
  p: "p", h1: "p", h2: "p", h3: "p", h4: "p", h5: "p", h6: "p",
  ul: "ul", ol: "ol", li: "li", blockquote: "blockquote",
  table: "table", thead: "thead", tbody: "tbody", tr: "tr", th: "th", td: "td",
  em: "em", strong: "strong", s: "s",
};

const IMAGE = /^data:image\/(?:png|jpeg|gif|webp|avif|bmp);base64,[A-Za-z0-9+/=\s]+$/i;
const EXTERNAL = /^(?:https?:|mailto:)/i;

const parser = new MarkdownIt({ html: false, linkify: true, breaks: false });
const withBreaks = new MarkdownIt({ html: false, linkify: true, breaks: true });
for (const md of [parser, withBreaks]) {
  // `main.rs` is a file and not a host.
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  // Where links lead is decided below.
  md.validateLink = () => true;
}

/** The text as Markdown; `breaks` if its line breaks count, as where people type. */
export function markdown(text: string, breaks = false): HTMLElement {
  const root = h("div", { class: "prose" });
  render((breaks ? withBreaks : parser).parse(text, {}), root);
  return root;
}

function render(tokens: Token[], root: HTMLElement): void {
  const stack: HTMLElement[] = [root];
  const top = () => stack[stack.length - 1] ?? root;
  for (const token of tokens) {
    if (token.nesting === 1) {
      if (!token.hidden) stack.push(opened(token, top()));
    } else if (token.nesting === -1) {
      if (!token.hidden && stack.length > 1) stack.pop();
    } else leaf(token, top());
  }
}

/** Appends the element that a token begins, and returns where its content belongs. */
function opened(token: Token, parent: HTMLElement): HTMLElement {
  if (token.type === "link_open") {
    const element = link(String(token.attrGet("href") ?? ""));
    parent.append(element);
    return element;
  }
  const element = h(ELEMENTS[token.tag] ?? "span");
  if (token.type === "heading_open") element.className = `heading ${token.tag}`;
  if (token.tag === "table") {
    parent.append(scroller("Table", "wide", element));
    return element;
  }
  if (token.tag === "ol") {
    const start = Number(token.attrGet("start") ?? 1);
    if (start > 1) element.setAttribute("start", String(start));
  }
  const align = /text-align:(right|center)/.exec(String(token.attrGet("style") ?? ""));
  if (align?.[1]) element.style.textAlign = align[1];
  parent.append(element);
  return element;
}

/** A link, if it leads to the web. A file of another machine is only named. */
export function link(href: string, name = ""): HTMLElement {
  if (!EXTERNAL.test(href)) return h("span", { class: "path", title: decoded(href) }, name);
  return h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, name);
}

function decoded(href: string): string {
  try {
    return decodeURI(href);
  } catch {
    return href;
  }
}

function leaf(token: Token, parent: HTMLElement): void {
  switch (token.type) {
    case "inline":
      render(token.children ?? [], parent);
      break;
    case "code_inline":
      parent.append(h("code", {}, stripped(token.content)));
      break;
    case "fence":
    case "code_block":
      parent.append(code(token.content, token.info.trim().split(/\s+/)[0] ?? ""));
      break;
    case "softbreak":
      parent.append("\n");
      break;
    case "hardbreak":
      parent.append(h("br"));
      break;
    case "hr":
      parent.append(h("hr"));
      break;
    case "image": {
      const source = String(token.attrGet("src") ?? "");
      const name = token.content || "Image";
      // No image comes from the network.
      if (IMAGE.test(source)) parent.append(h("img", { src: source, alt: name, class: "picture" }));
      else parent.append(link(source, `[image: ${name}]`));
      break;
    }
    default:
      parent.append(stripped(token.content));
  }
}

/** A block of code. A diff and the output of a terminal keep their colours. */
function code(content: string, language: string): HTMLElement {
  const text = content.replace(/\n$/, "");
  const element = h("code");
  if (text.includes("\x1b")) element.append(ansi(text));
  else if (language === "diff") {
    for (const line of text.split("\n")) {
      const sign = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
      element.append(h("span", { class: sign }, line), "\n");
    }
  } else element.append(stripped(text));
  return scroller(language ? `Code, ${language}` : "Code", "code", h("pre", {}, element));
}
