/** Shows the change of a file, line by line. The lines have no numbers: what is compared may be a part of the file. */

import { structuredPatch } from "diff";
import { stripped } from "./ansi";
import { h, more, scroller } from "./dom";

/** How long a comparison may take, in milliseconds; beyond it, all lines count as changed. */
const TIMEOUT = 200;
/** How many lines are shown at first. */
const MOST = 400;

interface Line {
  sign: "+" | "-" | " " | "@";
  text: string;
}

export function diff(path: string, old: string, now: string): HTMLElement {
  const lines = changes(stripped(old), stripped(now));
  const added = lines.filter((line) => line.sign === "+").length;
  const removed = lines.filter((line) => line.sign === "-").length;
  const table = h("div", { class: "lines" });
  const show = (from: number, to: number) => {
    for (const line of lines.slice(from, to)) table.append(row(line));
  };
  show(0, MOST);
  const body = scroller(`Changes of ${path}`, "diff", table);
  const figure = h(
    "figure",
    { class: "change" },
    h(
      "figcaption",
      {},
      h("span", { class: "path" }, path),
      h("span", { class: "counts" },
        h("span", { class: "plus" }, `+${added}`), " ",
        h("span", { class: "minus" }, `\u2212${removed}`)),
    ),
    body,
  );
  if (lines.length > MOST) {
    figure.append(more(`Show all ${lines.length} lines`, body, () => show(MOST, lines.length)));
  }
  return figure;
}

function row(line: Line): HTMLElement {
  if (line.sign === "@") return h("div", { class: "gap" }, "\u22ef");
  const kind = line.sign === "+" ? "added" : line.sign === "-" ? "removed" : "same";
  const said = kind === "same" ? null : h("span", { class: "hidden" }, `${kind}: `);
  return h(
    "div",
    { class: kind },
    h("span", { class: "sign", "aria-hidden": "true" }, line.sign),
    said,
    h("span", { class: "text" }, line.text),
  );
}

function changes(old: string, now: string): Line[] {
  const patch = structuredPatch("", "", old, now, "", "", { context: 3, timeout: TIMEOUT });
  if (!patch) {
    const all = (text: string, sign: "+" | "-"): Line[] =>
      text ? text.replace(/\n$/, "").split("\n").map((line) => ({ sign, text: line })) : [];
    return [...all(old, "-"), ...all(now, "+")];
  }
  const lines: Line[] = [];
  let at = 1;
  for (const hunk of patch.hunks) {
    if (hunk.oldStart > at && hunk.newStart > 1) lines.push({ sign: "@", text: "" });
    for (const line of hunk.lines) {
      const [sign, text] = [line[0], line.slice(1)];
      if (sign === "-" || sign === "+" || sign === " ") lines.push({ sign, text });
    }
    at = hunk.oldStart + hunk.oldLines;
  }
  return lines;
}
