/** The search box: finds rows by their text, whether or not they are in the page. */

import { button, h, icon } from "./dom";
import { grouped } from "./format";
import { ICONS } from "./icons";
import { rowText, type Conversation } from "./model";

/** How many hits are marked at once. */
const MARKED = 2000;
/** How long typing must rest before a search, in milliseconds. */
const REST = 120;

export class Search {
  readonly box: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly count = h("output", { class: "count", "aria-live": "polite" });
  private readonly texts = new Map<number, string>();
  private query = "";
  private hits: number[] = [];
  private current = -1;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly conversation: Conversation,
    private readonly root: HTMLElement,
    /** Shows a row and returns its element. */
    private readonly show: (index: number) => HTMLElement | undefined,
    /** The row that the reader sees first. */
    private readonly place: () => number,
  ) {
    this.input = h("input", {
      type: "search", placeholder: "Search", "aria-label": "Search the conversation",
      enterkeyhint: "search", autocomplete: "off", spellcheck: "false",
    });
    const previous = button("Previous hit", "button", icon(ICONS.up));
    const next = button("Next hit", "button", icon(ICONS.down));
    previous.addEventListener("click", () => this.step(-1));
    next.addEventListener("click", () => this.step(1));
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.search(), REST);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        clearTimeout(this.timer);
        if (this.isStale()) this.search();
        else this.step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        this.input.value = "";
        this.search();
        this.input.blur();
      }
    });
    this.box = h("div", { class: "search", role: "search" },
      icon(ICONS.search), this.input, this.count, previous, next);
  }

  private isStale(): boolean {
    return this.query !== this.input.value.trim().toLowerCase();
  }

  /** A row has changed. */
  changed(index: number): void {
    this.texts.delete(index);
  }

  private text(index: number): string {
    let text = this.texts.get(index);
    const row = this.conversation.rows[index];
    if (text === undefined && row) {
      text = rowText(row).toLowerCase();
      this.texts.set(index, text);
    }
    return text ?? "";
  }

  private search(): void {
    this.query = this.input.value.trim().toLowerCase();
    this.hits = [];
    if (this.query) {
      for (let i = 0; i < this.conversation.rows.length; i++) {
        if (this.text(i).includes(this.query)) this.hits.push(i);
      }
    }
    const from = this.place();
    const first = this.hits.findIndex((hit) => hit >= from);
    this.current = this.hits.length ? Math.max(0, first) : -1;
    this.go();
  }

  private step(by: number): void {
    if (this.isStale()) return this.search();
    if (!this.hits.length) return;
    this.current = (this.current + by + this.hits.length) % this.hits.length;
    this.go();
  }

  private go(): void {
    const hit = this.hits[this.current];
    this.count.textContent = !this.query
      ? ""
      : hit === undefined
        ? "no hits"
        : `${grouped(this.current + 1)} of ${grouped(this.hits.length)}`;
    this.root.querySelector(".hit")?.classList.remove("hit");
    if (hit !== undefined) {
      const row = this.show(hit);
      row?.classList.add("hit");
      if (row) this.toFirst(row);
    }
    this.mark();
  }

  /** Brings the first hit in a row into view. */
  private toFirst(row: HTMLElement): void {
    const first = unfold(row, () => ranges(row, this.query, 1)[0]?.startContainer.parentElement);
    first?.scrollIntoView({ block: "nearest" });
  }

  /** Marks the hits that are in the page. */
  mark(): void {
    if (typeof Highlight === "undefined") return;
    CSS.highlights.delete("hits");
    if (this.query) CSS.highlights.set("hits", new Highlight(...ranges(this.root, this.query, MARKED)));
  }
}

/** How many folded parts inside of each other are looked through. */
const DEEPEST = 6;

/** Makes the folded parts of a row until `find` finds something there, and opens what hides it. */
export function unfold(row: HTMLElement, find: () => HTMLElement | null | undefined): HTMLElement | undefined {
  let found = find();
  for (let depth = 0; depth < DEEPEST && !found; depth++) {
    for (const details of row.querySelectorAll("details")) details.dispatchEvent(new Event("fill"));
    found = find();
  }
  for (let at = found; at && at !== row; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  return found ?? undefined;
}

function ranges(root: HTMLElement, query: string, most: number): Range[] {
  const found: Range[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && found.length < most; node = walker.nextNode()) {
    const text = (node.nodeValue ?? "").toLowerCase();
    // The lower case of some letters is longer: then places in the text are not known.
    if (text.length !== (node.nodeValue ?? "").length) continue;
    for (let at = text.indexOf(query); at >= 0 && found.length < most; at = text.indexOf(query, at + query.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + query.length);
      found.push(range);
    }
  }
  return found;
}
