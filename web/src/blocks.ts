/** Shows content blocks: text, images, audio and resources. */

import { object, text, type Json } from "./acp";
import { ansi } from "./ansi";
import { h, more, scroller } from "./dom";
import { plural } from "./format";
import { link, markdown } from "./markdown";
import { written } from "./model";

/** How many lines of an output are shown at first, and how many characters. */
const MOST = 300;
const MOST_CHARACTERS = 200_000;
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;

export function block(value: Json, breaks = false): HTMLElement {
  const mime = text(value["mimeType"]);
  switch (value["type"]) {
    case "text":
      return markdown(text(value["text"]), breaks);
    case "image":
      return image(mime, text(value["data"]), text(value["uri"]));
    case "audio":
      return audio(mime, text(value["data"]));
    case "resource_link": {
      const uri = text(value["uri"]);
      const name = text(value["title"]) || text(value["name"]) || uri;
      return h("p", { class: "attachment" }, link(uri, name));
    }
    case "resource":
      return resource(object(value["resource"]));
    default:
      return raw(`Content of an unknown type: ${text(value["type"]) || "none"}`, value);
  }
}

function image(mime: string, data: string, uri: string): HTMLElement {
  const name = uri.split("/").at(-1) || `Image, ${mime.replace("image/", "")}`;
  if (!/^image\/[\w.+-]+$/.test(mime) || !BASE64.test(data)) return missing(name);
  return h("img", { src: `data:${mime};base64,${data}`, alt: name, class: "picture", decoding: "async" });
}

function audio(mime: string, data: string): HTMLElement {
  if (!/^audio\/[\w.+-]+$/.test(mime) || !BASE64.test(data)) return missing(`audio, ${mime}`);
  return h("audio", { src: `data:${mime};base64,${data}`, controls: true, "aria-label": `Audio, ${mime}` });
}

function missing(what: string): HTMLElement {
  return h("p", { class: "attachment" }, `[${what}]`);
}

function resource(value: Json): HTMLElement {
  const uri = text(value["uri"]);
  const mime = text(value["mimeType"]);
  const blob = text(value["blob"]);
  if (blob) return mime.startsWith("image/") ? image(mime, blob, uri) : missing(`${uri}, ${mime}`);
  return h("details", { class: "raw" },
    h("summary", {}, h("span", { class: "path" }, uri || "Attached text")),
    output(text(value["text"]), uri || "Attached text"));
}

/** The output of a tool: as Markdown if it has a fence, otherwise as it would be in a terminal. */
export function toolText(value: string): HTMLElement {
  return /^\s*(```|~~~)/m.test(value) ? markdown(value) : output(value, "Output");
}

/** Text as it is, with the colours of a terminal; the end of a long one on demand. */
export function output(value: string, label: string): HTMLElement {
  const whole = value.replace(/\n+$/, "");
  const lines = whole.split("\n");
  const first = lines.slice(0, MOST).join("\n").slice(0, MOST_CHARACTERS);
  const pre = h("pre", {}, ansi(first));
  const body = scroller(label, "code", pre);
  if (first.length === whole.length) return body;
  const rest = more(`Show all ${plural(lines.length, "line")}`, body, () => pre.replaceChildren(ansi(whole)));
  return h("div", {}, body, rest);
}

/** What has no form of its own: its name, and its JSON on demand. */
export function raw(name: string, value: unknown): HTMLElement {
  return lazyDetails("raw", [name], () => [output(written(value), name)]);
}

/** A part that is made when it is opened. */
export function lazyDetails(
  className: string,
  summary: (Node | string)[],
  make: () => Node[],
  open = false,
): HTMLDetailsElement {
  const details = h("details", { class: className }, h("summary", {}, ...summary));
  let isMade = false;
  const fill = () => {
    if (isMade) return;
    isMade = true;
    details.append(h("div", { class: "body" }, ...make()));
  };
  if (open) {
    details.open = true;
    fill();
  }
  details.addEventListener("toggle", () => details.open && fill());
  // A search opens what has a hit, and must find it there.
  details.addEventListener("fill", fill);
  return details;
}
