/** Shows each row of a conversation. */

import { list, object, text, type Json, type Permission } from "./acp";
import { stripped } from "./ansi";
import { block, lazyDetails, output, raw, toolText } from "./blocks";
import { diff } from "./diff";
import { h, icon } from "./dom";
import { dayOf, duration, fullTime, plural, timeOfDay } from "./format";
import { ICONS, kindIcon } from "./icons";
import { markdown } from "./markdown";
import { decided, written, type Child, type Conversation, type Row, type ToolRow } from "./model";

/** The longest diff that is shown without being asked for, in characters. */
const SHORT_DIFF = 6000;

export class RowView {
  /** What the reader has opened or closed: it stays so when a row is made again. */
  private readonly opened = new Map<string, boolean>();

  constructor(
    private readonly conversation: Conversation,
    private readonly agent: () => string,
    /** The session's folder, which paths in it need not repeat. */
    private readonly folder: () => string,
    private readonly depth = 0,
  ) {}

  make(index: number): HTMLElement {
    const row = this.conversation.rows[index];
    const element = h("article", { class: "row" });
    if (!row) return element;
    element.id = row.anchor;
    element.tabIndex = -1;
    element.classList.add(row.type === "message" ? row.role : row.type);
    if (this.depth === 0) {
      element.setAttribute("aria-posinset", String(index + 1));
      element.setAttribute("aria-setsize", String(this.conversation.rows.length));
    }
    // The tool call that runs it shows it.
    element.hidden = row.type === "subagent" && row.isLinked;
    if (element.hidden) return element;
    const name = nameOf(row, this.agent());
    const heading = `h${Math.min(6, (row.type === "message" && row.role === "user" ? 2 : 3) + this.depth)}` as "h2";
    const at = this.conversation.turnAt.get(index);
    const turn = at === undefined ? undefined : this.conversation.turns[at];
    if (turn && at !== undefined && this.depth === 0) {
      const before = this.conversation.turns[at - 1];
      const day = dayOf(row.at);
      if (day && day !== dayOf(before?.began ?? "")) element.append(h("p", { class: "day" }, day));
    }
    const took = turn ? duration(turn.began, turn.ended) : "";
    const head = h("header", {},
      h(heading, { class: this.isNamed(row, index) ? "" : "hidden" }, name),
      took ? h("span", { class: "took", title: "How long the turn took" }, took) : null,
      permalink(row, turn ? `#${turn.turn}` : ""),
    );
    element.append(head, ...this.body(row));
    return element;
  }

  /** Whether the name of who speaks is shown: the agent's at its first words in a turn. */
  private isNamed(row: Row, index: number): boolean {
    if (row.type !== "message" || row.role === "thought") return false;
    if (row.role === "user") return true;
    for (let at = index - 1; at >= 0; at--) {
      const before = this.conversation.rows[at];
      if (before?.turn !== row.turn || (before.type === "message" && before.role === "user")) return true;
      if (before.type === "message" && before.role === "agent") return false;
    }
    return true;
  }

  /** Text in which paths begin in the session's folder. */
  private short(text: string): string {
    const folder = this.folder();
    return folder.length > 1 ? text.replaceAll(`${folder}/`, "") : text;
  }

  /** A guess at the height of a row, in pixels. */
  guess(index: number): number {
    const row = this.conversation.rows[index];
    if (row?.type !== "message" || row.role === "thought") return 52;
    const length = row.blocks.reduce((sum, block) => sum + text(block["text"]).length, 0);
    return 70 + Math.ceil(length / 80) * 26;
  }

  private body(row: Row): Node[] {
    switch (row.type) {
      case "message": {
        const content = () => row.blocks.map((value) => block(value, row.role === "user"));
        if (row.role !== "thought") return content();
        const words = row.blocks.map((value) => text(value["text"])).join(" ");
        return [this.fold(row, "musing", [icon(kindIcon("think")), h("span", { class: "label" }, "Thought"), preview(words)], content)];
      }
      case "tool":
        return [this.tool(row)];
      case "plan":
        return [row.removed ? h("p", { class: "remark" }, "The plan was removed.") : plan(row.entries, row.before)];
      case "subagent":
        return [this.child(row, row.child)];
      case "notice": {
        const kind = row.severity === "error" ? "error" : row.severity === "warning" ? "warning" : "info";
        return [h("p", { class: `remark ${kind}` }, h("strong", {}, row.title), row.detail ? ` ${row.detail}` : null)];
      }
      case "compaction": {
        const name = row.status === "failed" ? "Shortening the context failed" : "The agent shortened its context";
        const remark = row.error ? [h("p", { class: "remark error" }, row.error)] : [];
        return [this.fold(row, "raw", [name], () => [...remark, ...row.blocks.map((value) => block(value))])];
      }
      case "letter": {
        const name = (id: string) => this.conversation.nameOf(id) || "the user's session";
        const route = `Message from ${name(row.from)} to ${name(row.to)}`;
        return [this.fold(row, "raw", [route], () => row.blocks.map((value) => block(value)))];
      }
      case "end":
        return [h("p", { class: `remark ${row.severity}`, role: "note" }, row.words)];
      case "other":
        return [
          raw(`Update: ${text(row.update["sessionUpdate"]) || "without a name"}`, row.update),
          ...row.blocks.map((value) => block(value)),
        ];
    }
  }

  private fold(row: Row, className: string, summary: (Node | string)[], make: () => Node[], open = false): HTMLElement {
    const details = lazyDetails(className, summary, make, this.opened.get(row.anchor) ?? open);
    details.addEventListener("toggle", () => this.opened.set(row.anchor, details.open));
    return details;
  }

  private tool(row: ToolRow): HTMLElement {
    const { call } = row;
    const status = text(call["status"]);
    const kind = text(call["kind"]) || "other";
    const title = this.short(stripped(text(call["title"])).replace(/^`([^`]*)`$/, "$1")) || text(call["name"]) || kind;
    const took = duration(row.at, row.ended);
    const summary = [
      icon(kindIcon(kind)),
      h("span", { class: "hidden" }, `Tool call, ${kind.replaceAll("_", " ")}: `),
      h("span", { class: "title" }, title),
      h("span", { class: "facts" }, ...row.asked.map(permissionMark), took ? h("span", { class: "took" }, took) : null, statusMark(status)),
    ];
    const diffs = list(call["content"]).filter((part) => part["type"] === "diff");
    const length = diffs.reduce((sum, part) => sum + text(part["newText"]).length + text(part["oldText"]).length, 0);
    const open = status === "failed" || (diffs.length > 0 && length < SHORT_DIFF) || row.children.length > 0;
    return this.fold(row, `call ${status}`, summary, () => this.details(row, title), open);
  }

  private details(row: ToolRow, title: string): Node[] {
    const { call } = row;
    const parts: Node[] = [];
    for (const asked of row.asked) parts.push(h("p", { class: `asked ${asked.decision}` }, decided(asked)));
    if (title.includes("\n") || title.length > 90) parts.push(output(title, "Title"));
    const content = list(call["content"]);
    const paths = new Set(content.map((part) => text(part["path"])).filter(Boolean));
    const places = list(call["locations"]).filter((place) => !paths.has(text(place["path"])));
    if (places.length) parts.push(h("p", { class: "places" }, ...places.map((place) => location(this.short(text(place["path"])), place["line"]))));
    const input = object(call["rawInput"]);
    const command = written(input["command"] ?? "").trim();
    if (typeof input["command"] === "string" && !title.includes(command)) parts.push(output(`$ ${command}`, "Command"));
    for (const part of content) parts.push(...this.content(row, part));
    for (const child of row.children) parts.push(this.child(row, child));
    if (call["rawInput"] !== undefined) parts.push(raw("Raw input", call["rawInput"]));
    if (call["rawOutput"] !== undefined) {
      const said = content.length === 0 && typeof call["rawOutput"] === "string";
      parts.push(said ? toolText(written(call["rawOutput"])) : raw("Raw output", call["rawOutput"]));
    }
    if (parts.length === 0) parts.push(h("p", { class: "remark" }, "No details are known."));
    return parts;
  }

  private content(row: ToolRow, part: Json): Node[] {
    switch (part["type"]) {
      case "content": {
        const inner = object(part["content"]);
        return [inner["type"] === "text" ? toolText(text(inner["text"])) : block(inner)];
      }
      case "diff": {
        const patch = object(part["patch"]);
        if (text(patch["text"])) return [markdown(`~~~~~~diff\n${text(patch["text"])}\n~~~~~~`)];
        return [diff(this.short(text(part["path"])), text(part["oldText"]), text(part["newText"]))];
      }
      case "terminal": {
        const terminal = row.terminals.get(text(part["terminalId"]));
        if (!terminal) return [h("p", { class: "remark" }, "What this terminal showed is not known.")];
        const code = terminal.exit["exitCode"];
        return [
          output(terminal.output, "Output of a terminal"),
          ...(code === undefined ? [] : [h("p", { class: "remark" }, `Exit code ${String(code)}`)]),
        ];
      }
      case "session":
        return [];
      default:
        return [raw(`Content: ${text(part["type"])}`, part)];
    }
  }

  /** A subagent's conversation. */
  private child(row: Row, child: Child): HTMLElement {
    const { conversation } = child;
    const state = object(child.about["state"])["state"] ?? child.about["state"];
    const lost = state === "unknown" || state === "disconnected" || state === "failed";
    const summary = [
      icon(ICONS.agents),
      h("span", { class: "title" }, `Subagent ${childName(child)}`),
      h("span", { class: "facts" },
        lost ? h("span", { class: "mark failed" }, state === "failed" ? "failed" : "lost") : null,
        h("span", { class: "took" }, plural(conversation.rows.length, "part"))),
    ];
    const view = new RowView(conversation, () => "Subagent", this.folder, Math.min(3, this.depth + 1));
    const key = { ...row, anchor: `${row.anchor}/${child.id}` };
    return this.fold(key, "call child", summary, () => {
      const about = text(child.about["description"]);
      return [about ? h("p", { class: "remark" }, about) : h("span"), ...conversation.rows.map((_, at) => view.make(at))];
    });
  }
}

function childName(child: Child): string {
  return stripped(text(child.about["title"])) || "without a title";
}

function nameOf(row: Row, agent: string): string {
  switch (row.type) {
    case "message":
      return row.role === "user" ? "You" : row.role === "agent" ? agent : "Thought";
    case "tool":
      return "Tool call";
    case "plan":
      return "Plan";
    case "subagent":
      return "Subagent";
    case "end":
      return "End of the turn";
    default:
      return "Note";
  }
}

function permalink(row: Row, label: string): HTMLElement {
  const time = row.at ? h("time", { datetime: row.at, title: fullTime(row.at) }, timeOfDay(row.at)) : null;
  return h("a", { class: "permalink", href: `#${row.anchor}` },
    h("span", { class: "hidden" }, label ? "Link to this turn, " : "Link to this part, "), time,
    label ? h("span", { class: "anchor" }, label) : null);
}

function preview(words: string): HTMLElement {
  const line = stripped(words).replace(/[*_`#\s]+/g, " ").trim();
  return h("span", { class: "preview" }, line.slice(0, 160));
}

function location(path: string, line: unknown): HTMLElement {
  return h("span", { class: "path" }, path + (typeof line === "number" ? `:${line}` : ""));
}

/** A request for permission in a word, which what was said of it explains. */
function permissionMark(asked: Permission): HTMLElement {
  const word = ["allowed", "rejected"].includes(asked.decision) ? asked.decision : "not allowed";
  return h("span", { class: `asked ${asked.decision}`, title: decided(asked) }, asked.decision === "open" ? "asked" : word);
}

function statusMark(status: string): HTMLElement {
  switch (status) {
    case "completed":
      return h("span", { class: "mark done", title: "completed" }, h("span", { class: "hidden" }, "completed"), icon("M3 8.5l3.2 3.2L13 4.8"));
    case "failed":
      return h("span", { class: "mark failed" }, "failed");
    default:
      return h("span", { class: "mark" }, status ? status.replaceAll("_", " ") : "not finished");
  }
}

const STEPS: Record<string, [string, string]> = {
  completed: ["\u2713", "completed"],
  in_progress: ["\u25b8", "in progress"],
  pending: ["\u25cb", "pending"],
};

/** A plan; what differs from the one before is marked. */
function plan(entries: Json[], before: Json[] | undefined): HTMLElement {
  const earlier = new Map(before?.map((entry) => [text(entry["content"]), text(entry["status"])]));
  const items = entries.map((entry) => {
    const [content, status] = [text(entry["content"]), text(entry["status"])];
    const [sign, said] = STEPS[status] ?? ["\u25cb", status];
    const isNew = before !== undefined && earlier.get(content) !== status;
    return h("li", { class: `step ${status}${isNew ? " changed" : ""}` },
      h("span", { class: "sign", "aria-hidden": "true" }, sign),
      h("span", {}, content, h("span", { class: "hidden" }, ` (${said || "no status"}${isNew ? ", changed" : ""})`)),
      entry["priority"] === "high" ? h("span", { class: "mark" }, "high") : null);
  });
  const done = entries.filter((entry) => entry["status"] === "completed").length;
  return h("div", { class: "plan-card" },
    h("p", { class: "plan-head" }, before ? "Plan, updated" : "Plan", h("span", { class: "took" }, `${done} of ${entries.length} done`)),
    h("ul", { role: "list" }, ...items));
}
