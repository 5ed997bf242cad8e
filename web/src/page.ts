/** The page with a conversation: its frame, its rows, the list of turns, search and keys. */

import { blockText, object, product, text, type Session } from "./acp";
import { copied, button, h, icon } from "./dom";
import { dateTime, grouped, money, plural } from "./format";
import { ICONS } from "./icons";
import { LazyList } from "./lazy";
import { Conversation } from "./model";
import { RowView } from "./rows";
import { Search, unfold } from "./search";
import { receive } from "./source";
import { themeButton } from "./theme";

/** How far below the top of the window reading begins, in pixels. */
const READING = 130;

function start(): void {
  let session: Session | undefined;
  const changes = new Set<number>();
  const conversation = new Conversation((index) => changes.add(index));
  const intro = h("section", { class: "intro", "aria-label": "The session" });
  const feed = h("div", { class: "feed", role: "feed", "aria-label": "Conversation", "aria-busy": "true" });
  const turnsRoot = h("div", { class: "turns" });
  const nav = h("nav", { id: "turns", "aria-label": "Turns" }, turnsRoot);
  const main = h("main", { id: "main", tabindex: -1 }, intro, feed,
    h("footer", { class: "foot" }, "Written by rejoin. This file has the whole conversation, with everything that tools have read and written."));
  const view = new RowView(conversation, () => session?.agent || "Agent", () => session?.cwd ?? "");
  const rows = new LazyList(feed, view, null, () => search.mark());
  const turns = new LazyList(turnsRoot, { make: (index) => turnLink(conversation, index), guess: () => 44 }, nav);

  const show = (index: number): HTMLElement | undefined => {
    const element = rows.reveal(index);
    element?.scrollIntoView({ block: "start" });
    return element;
  };
  const search = new Search(conversation, feed, show, () => topRow()?.index ?? 0);

  const topRow = () => {
    const found = document
      .elementsFromPoint(innerWidth / 2, READING)
      .map((element) => element.closest<HTMLElement>(".feed > .block > .row"))
      .find(Boolean);
    return found ? { element: found, index: Number(found.getAttribute("aria-posinset")) - 1 } : undefined;
  };

  const menu = button("Turns", "button menu", icon(ICONS.menu));
  menu.setAttribute("aria-expanded", "false");
  menu.setAttribute("aria-controls", "turns");
  const toggleMenu = (open: boolean) => {
    document.body.classList.toggle("menu-open", open);
    menu.setAttribute("aria-expanded", String(open));
    menu.replaceChildren(icon(open ? ICONS.close : ICONS.menu));
  };
  menu.addEventListener("click", () => toggleMenu(!document.body.classList.contains("menu-open")));
  nav.addEventListener("click", () => toggleMenu(false));

  const title = h("p", { class: "bar-title" });
  document.body.append(
    h("a", { class: "skip", href: "#main" }, "Skip to the conversation"),
    h("header", { class: "bar" }, menu, title, search.box, themeButton()),
    h("div", { class: "layout" }, nav, main),
  );

  /** Shows the part that the address names. */
  const toFragment = () => {
    const anchor = decodeURIComponent(location.hash.slice(1));
    if (!/^[st]/.test(anchor)) return;
    const index = conversation.find(anchor);
    const row = index < 0 ? undefined : show(index);
    if (!row) return;
    const target = unfold(row, () => document.getElementById(anchor)) ?? row;
    target.scrollIntoView({ block: "start" });
    target.focus({ preventScroll: true });
  };
  addEventListener("hashchange", toFragment);

  let current: Element | undefined;
  const markTurn = () => {
    const at = topRow();
    const turn = at ? conversation.rows[at.index]?.turn : undefined;
    const link = turn === undefined ? undefined : turnsRoot.querySelector(`[data-turn="${turn}"]`);
    if (link === current) return;
    current?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "true");
    current = link ?? undefined;
  };
  let isDue = false;
  addEventListener("scroll", () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      markTurn();
    });
  }, { passive: true });

  const step = (by: number) => {
    const focused = document.activeElement?.closest<HTMLElement>(".feed > .block > .row");
    const seen = topRow();
    const near = seen ? seen.index - (by > 0 ? 1 : 0) : -1;
    const from = focused ? Number(focused.getAttribute("aria-posinset")) - 1 : near;
    for (let to = from + by; to >= 0 && to < conversation.rows.length; to += by) {
      if (rows.reveal(to)?.hidden) continue;
      show(to)?.focus({ preventScroll: true });
      return;
    }
  };
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, audio")) return;
    const keys: Record<string, () => void> = {
      j: () => step(1),
      k: () => step(-1),
      "/": () => search.input.focus(),
      Escape: () => toggleMenu(false),
    };
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  receive({
    session(value) {
      session = value;
      conversation.know(value.kinds);
      document.title = value.title || "Conversation";
      title.textContent = value.title;
    },
    update: (update) => conversation.update(update),
    turn: (end) => conversation.end(end),
    permission: (asked) => conversation.permission(asked),
    received(complete) {
      for (const index of changes) {
        rows.changed(index);
        search.changed(index);
      }
      changes.clear();
      rows.grow(conversation.rows.length);
      turns.grow(conversation.turns.length);
      if (session && (complete || !intro.hasChildNodes())) introduce(intro, session, conversation);
      if (!complete) return;
      feed.setAttribute("aria-busy", "false");
      if (conversation.rows.length === 0) feed.replaceChildren(h("p", { class: "remark" }, "This session has no conversation yet."));
      toFragment();
      markTurn();
    },
  });
}

/** What is known of the session as a whole. */
function introduce(root: HTMLElement, session: Session, conversation: Conversation): void {
  const info = conversation.state["session_info_update"];
  const usage = object(conversation.state["usage_update"]);
  const amount = Number(session.cost["amount"]);
  const cost = session.cost["amount"] === undefined ? "" : money(amount, text(session.cost["currency"]));
  const size = Number(usage["size"]);
  const context = size > 0 ? `${grouped(Number(usage["used"]) || 0)} of ${grouped(size)} tokens` : "";
  const branch = session.toolBranch;
  const since = branch ? `${plural(branch.turns, "turn")} in ${product(branch.tool)}, not shown here` : "";
  const facts: [string, string][] = [
    ["Agent", session.agent],
    ["Model", session.model],
    ["Folder", session.cwd],
    ["Began", dateTime(session.createdAt)],
    ["Last used", dateTime(session.updatedAt)],
    ["Turns", grouped(session.turns)],
    ["Since", since],
    ["Cost", cost],
    ["Context", context],
  ];
  const known = facts.filter(([, value]) => value);
  const own = session.agentSession;
  root.replaceChildren(
    h("h1", {}, text(info?.["title"]) || session.title || "A conversation without a title"),
    h("dl", {}, ...known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { title: value }, value))),
      own && h("div", {}, h("dt", {}, `ID in ${own.agent}`), h("dd", {}, copied(own.sessionId)))),
    ...(session.damage.length
      ? [h("div", { class: "remark warning" }, h("p", {}, `The log has damage in ${plural(session.damage.length, "place")}; what is there is missing here.`),
          h("ul", {}, ...session.damage.slice(0, 5).map((damage) => h("li", {}, damage))))]
      : []),
  );
}

/** A turn in the list beside the conversation. */
function turnLink(conversation: Conversation, index: number): HTMLElement {
  const turn = conversation.turns[index];
  const row = turn && conversation.rows[turn.row];
  const words = row?.type === "message" ? row.blocks.map(blockText).join(" ") : "";
  const line = words.replace(/\s+/g, " ").trim().slice(0, 90);
  return h("a", { href: `#${row?.anchor ?? ""}`, "data-turn": turn?.turn ?? 0 },
    h("span", { class: "number" }, String(turn?.turn ?? "")), h("span", { class: "words" }, line || "(no text)"));
}

start();
