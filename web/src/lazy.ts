/** A long list of which only the part near the window is in the page. */

import { h } from "./dom";

/** How many rows are made at once. */
const BLOCK = 20;
/** How far from the window rows are made. */
const MARGIN = "1200px 0px";

interface Block {
  element: HTMLElement;
  start: number;
  end: number;
  isMade: boolean;
}

export interface Rows {
  make(index: number): HTMLElement;
  /** A guess at the height of a row that was never made, in pixels. */
  guess(index: number): number;
}

export class LazyList {
  length = 0;
  private readonly blocks: Block[] = [];
  private readonly observer: IntersectionObserver;
  private readonly of = new Map<Element, Block>();
  private printing = false;

  constructor(
    private readonly root: HTMLElement,
    private readonly rows: Rows,
    scroller: HTMLElement | null = null,
    /** Called when rows were made. */
    private readonly made: () => void = () => {},
  ) {
    this.observer = new IntersectionObserver((entries) => this.seen(entries), {
      root: scroller,
      rootMargin: MARGIN,
    });
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  /** The list has grown to this length. */
  grow(length: number): void {
    const longer = new Set<Block>();
    while (this.length < length) {
      let last = this.blocks.at(-1);
      if (!last || last.end - last.start === BLOCK) {
        const element = h("div", { class: "block" });
        last = { element, start: this.length, end: this.length, isMade: false };
        this.blocks.push(last);
        this.of.set(element, last);
        this.root.append(element);
        this.observer.observe(element);
      }
      if (last.isMade) last.element.append(this.rows.make(this.length));
      last.end = ++this.length;
      if (!last.isMade) longer.add(last);
    }
    for (const block of longer) this.reserve(block);
  }

  /** A row shows something else now. */
  changed(index: number): void {
    const block = this.blocks[Math.floor(index / BLOCK)];
    if (!block?.isMade || index >= block.end) return;
    block.element.children[index - block.start]?.replaceWith(this.rows.make(index));
  }

  /** The element of a row, which is made if it was not. */
  reveal(index: number): HTMLElement | undefined {
    const at = Math.floor(index / BLOCK);
    for (const near of [at - 1, at, at + 1]) {
      const block = this.blocks[near];
      if (block) this.make(block);
    }
    const block = this.blocks[at];
    return block?.element.children[index - block.start] as HTMLElement | undefined;
  }

  private make(block: Block): void {
    if (block.isMade) return;
    block.isMade = true;
    const rows: HTMLElement[] = [];
    for (let i = block.start; i < block.end; i++) rows.push(this.rows.make(i));
    block.element.style.height = "";
    block.element.replaceChildren(...rows);
  }

  private drop(block: Block): void {
    if (!block.isMade || this.printing || block.element.contains(document.activeElement)) return;
    // A selection may begin here.
    if (getSelection()?.isCollapsed === false) return;
    block.isMade = false;
    block.element.style.height = `${block.element.getBoundingClientRect().height}px`;
    block.element.replaceChildren();
  }

  private reserve(block: Block): void {
    let height = 0;
    for (let i = block.start; i < block.end; i++) height += this.rows.guess(i);
    block.element.style.height = `${height}px`;
  }

  private seen(entries: IntersectionObserverEntry[]): void {
    let moved = 0;
    for (const entry of entries) {
      const block = this.of.get(entry.target);
      if (!block) continue;
      if (!entry.isIntersecting) {
        this.drop(block);
        continue;
      }
      const before = block.element.getBoundingClientRect();
      this.make(block);
      if (before.bottom < 0) moved += block.element.getBoundingClientRect().height - before.height;
    }
    // What is read must not move. Most browsers see to that themselves.
    if (moved && !CSS.supports("overflow-anchor", "auto")) scrollBy(0, moved);
    this.made();
  }

  private print(isPrinting: boolean): void {
    this.printing = isPrinting;
    if (isPrinting) for (const block of this.blocks) this.make(block);
  }
}
