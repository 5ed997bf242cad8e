/** Shows the output of terminals: colours as colours, everything else that a terminal obeys left out. */

import { clean, h } from "./dom";

interface Style {
  colour: string;
  background: string;
  bold: boolean;
  faint: boolean;
  italic: boolean;
  underline: boolean;
}

const PLAIN: Style = { colour: "", background: "", bold: false, faint: false, italic: false, underline: false };

/** Control sequences, strings such as titles, and other escapes. */
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?/g;

/** Text without anything that only a terminal understands. */
export function stripped(text: string): string {
  return clean(overwritten(text.replace(ESCAPE, "")));
}

/** A progress display writes a carriage return before it repeats its line: the last version stays. */
function overwritten(text: string): string {
  if (!text.includes("\r")) return text;
  return text.replace(/\r+\n/g, "\n").replace(/^.*\r(?!$)/gm, "");
}

/** The text with its colours, as nodes. */
export function ansi(source: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const text = overwritten(source);
  let style = PLAIN;
  let at = 0;
  const flush = (end: number) => {
    const plain = clean(text.slice(at, end));
    if (plain) fragment.append(styled(plain, style));
  };
  for (const match of text.matchAll(ESCAPE)) {
    flush(match.index);
    at = match.index + match[0].length;
    if (match[2] === "m") style = select(style, match[1] ?? "");
  }
  flush(text.length);
  return fragment;
}

function styled(text: string, style: Style): Node {
  if (style === PLAIN) return document.createTextNode(text);
  const span = h("span", {}, text);
  for (const name of ["bold", "faint", "italic", "underline"] as const) {
    if (style[name]) span.classList.add(`ansi-${name}`);
  }
  // On a coloured ground, black and white would be unreadable in one of the themes.
  const isGround = style.background && /^(0|7|8|15)$/.test(style.colour);
  paint(span, "color", isGround ? "" : style.colour);
  paint(span, "background-color", style.background);
  return span;
}

/** The sixteen named colours are the page's own, so that they can be read on its background. */
function paint(span: HTMLElement, property: string, colour: string): void {
  if (!colour) return;
  const named = /^\d+$/.test(colour);
  const value = named ? `var(--ansi-${colour})` : colour;
  const isPale = named && property !== "color";
  span.style.setProperty(property, isPale ? `color-mix(in srgb, ${value} 25%, transparent)` : value);
}

function select(before: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map(Number);
  let style = { ...before };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) style = { ...PLAIN };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.faint = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.faint = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code >= 30 && code <= 37) style.colour = String(code - 30);
    else if (code >= 90 && code <= 97) style.colour = String(code - 82);
    else if (code >= 40 && code <= 47) style.background = String(code - 40);
    else if (code >= 100 && code <= 107) style.background = String(code - 92);
    else if (code === 39) style.colour = "";
    else if (code === 49) style.background = "";
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(i + 1));
      if (code === 38) style.colour = colour;
      else style.background = colour;
      i += used;
    }
  }
  return Object.values(style).some(Boolean) ? style : PLAIN;
}

/** A colour of the palette of 256, or one by its parts; and how many codes it takes. */
function extended(codes: number[]): [string, number] {
  const [mode, a = 0, b = 0, c = 0] = codes;
  if (mode === 2) return [`rgb(${byte(a)} ${byte(b)} ${byte(c)})`, 4];
  if (mode !== 5) return ["", 0];
  if (a < 16) return [String(byte(a)), 2];
  if (a >= 232) return [`rgb(${grey(a)} ${grey(a)} ${grey(a)})`, 2];
  const part = (n: number) => (n === 0 ? 0 : 55 + 40 * n);
  const cube = byte(a) - 16;
  return [`rgb(${part(Math.floor(cube / 36))} ${part(Math.floor(cube / 6) % 6)} ${part(cube % 6)})`, 2];
}

const byte = (n: number) => Math.min(255, Math.max(0, Math.floor(n) || 0));
const grey = (n: number) => 8 + 10 * (byte(n) - 232);
