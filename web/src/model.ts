/** The conversation as rows: what is shown after all updates. Knows nothing of the page. */

import { blocks, blockText, list, object, text, type Json, type Permission, type TurnEnd, type Update } from "./acp";
import { fullTime } from "./format";

export type Role = "user" | "agent" | "thought";

interface Base {
  /** The fragment that links to it. */
  anchor: string;
  at: string;
  turn: number;
}

export type Row = Base &
  (
    | { type: "message"; role: Role; id: string; blocks: Json[] }
    | { type: "tool"; call: Json; terminals: Map<string, Terminal>; children: Child[]; ended: string; asked: Permission[] }
    | { type: "plan"; entries: Json[]; before: Json[] | undefined; removed: boolean }
    | { type: "subagent"; child: Child; isLinked: boolean }
    | { type: "notice"; severity: string; title: string; detail: string }
    | { type: "compaction"; status: string; blocks: Json[]; error: string }
    | { type: "letter"; from: string; to: string; blocks: Json[] }
    | { type: "end"; words: string; severity: string }
    | { type: "other"; update: Json; blocks: Json[] }
  );

export type ToolRow = Extract<Row, { type: "tool" }>;

export interface Terminal {
  output: string;
  exit: Json;
}

/** A subagent: what its parent says of it, and its own conversation. */
export interface Child {
  id: string;
  about: Json;
  conversation: Conversation;
}

/** What holds for all of a conversation: its subagents, and the last of each snapshot. */
interface Shared {
  children: Map<string, Child>;
  places: Map<string, { conversation: Conversation; index: number }>;
  linked: Map<string, { row: ToolRow; conversation: Conversation; index: number }>;
  /** What the program knows of kinds of updates, by their names. */
  kinds: Record<string, Json>;
}

export interface Turn {
  turn: number;
  row: number;
  began: string;
  ended: string;
}

const MESSAGES: Record<string, Role> = {
  user_message: "user", user_message_chunk: "user",
  agent_message: "agent", agent_message_chunk: "agent",
  agent_thought: "thought", agent_thought_chunk: "thought",
};

export class Conversation {
  readonly rows: Row[] = [];
  readonly turns: Turn[] = [];
  /** The index of the turn that begins with a row, by the index of the row. */
  readonly turnAt = new Map<number, number>();
  /** The last snapshot of each kind. */
  readonly state: Record<string, Json> = {};
  private readonly messages = new Map<string, number>();
  private readonly calls = new Map<string, number>();
  private readonly compactions = new Map<string, number>();
  private readonly terminals = new Map<string, Terminal>();
  private readonly plans = new Map<string, Json[]>();
  private rowsOfTurn = 0;

  constructor(
    /** Notified of each row that is added or changed. */
    private readonly changed: (index: number) => void,
    private readonly prefix = "",
    private readonly shared: Shared = { children: new Map(), places: new Map(), linked: new Map(), kinds: {} },
  ) {}

  /** Takes note of what the program knows of kinds of updates. */
  know(kinds: Record<string, Json>): void {
    Object.assign(this.shared.kinds, kinds);
  }

  /** Applies an update of this session, or of one of its subagents. */
  update(update: Update): void {
    const child = this.shared.children.get(update.sessionId);
    if (!child) return this.take(update);
    child.conversation.take(update);
    this.touched(child.id);
  }

  /** Applies the end of a turn. */
  end(end: TurnEnd): void {
    const turn = this.turns.findLast((turn) => turn.turn === end.turn);
    if (turn && end.at) {
      turn.ended = end.at;
      this.changed(turn.row);
    }
    const [words, severity] = howItEnded(end);
    if (words) this.add({ type: "end", words, severity }, end.at ?? "", end.turn);
  }

  /** Puts a request for permission to its tool call, or behind all if there is none. */
  permission(asked: Permission): void {
    const child = this.shared.children.get(asked.sessionId);
    const conversation = child?.conversation ?? this;
    const index = conversation.calls.get(asked.toolCallId);
    const row = index === undefined ? undefined : conversation.rows[index];
    if (index === undefined || row?.type !== "tool") {
      const [title, detail] = [asked.title || "Permission", decided(asked)];
      this.add({ type: "notice", severity: "", title, detail }, asked.at, asked.turn);
      return;
    }
    row.asked.push(asked);
    conversation.changed(index);
    if (child) this.touched(child.id);
  }

  /** Shows a subagent's row again, and those around it. */
  private touched(id: string): void {
    const place = this.shared.linked.get(id) ?? this.shared.places.get(id);
    if (place) place.conversation.changed(place.index);
  }

  private take({ update, at, turn }: Update): void {
    const kind = text(update["sessionUpdate"]);
    const role = MESSAGES[kind];
    if (role) return this.message(role, update, kind.endsWith("_chunk"), at, turn);
    const known = this.shared.kinds[kind] ?? {};
    if (known["snapshot"]) {
      this.state[kind] = kind === "session_info_update" ? { ...this.state[kind], ...update } : update;
      return;
    }
    switch (kind) {
      case "tool_call":
      case "tool_call_update":
        return this.tool(update, at, turn);
      case "tool_call_content_chunk": {
        const call = this.call(text(update["toolCallId"]), at, turn);
        call.call["content"] = [...list(call.call["content"]), object(update["content"])];
        return this.link(call);
      }
      case "terminal_update":
      case "terminal_output_chunk":
        return this.terminal(update, kind === "terminal_output_chunk");
      case "plan":
        return this.plan("", list(update["entries"]), at, turn);
      case "plan_update": {
        const plan = object(update["plan"]);
        const written = text(plan["content"]) || text(plan["uri"]);
        const entries = written ? [{ content: written }] : list(plan["entries"]);
        return this.plan(text(plan["planId"]) || text(plan["id"]), entries, at, turn);
      }
      case "plan_removed":
        this.plans.delete(text(update["planId"]));
        return void this.add({ type: "plan", entries: [], before: undefined, removed: true }, at, turn);
      case "subagent_update":
        return this.subagent(update, at, turn);
      case "notice": {
        const [title, detail] = [text(update["title"]), text(update["description"])];
        return void this.add({ type: "notice", severity: text(update["severity"]), title, detail }, at, turn);
      }
      case "compaction_update":
      case "compaction_summary_chunk":
        return this.compaction(update, at, turn);
      case "session_message":
      case "session_message_chunk":
        return this.letter(update, at, turn);
      case "state_update":
        // What the session is doing is said at the end of a turn.
        return;
      default:
        this.add({ type: "other", update, blocks: blocks(update[text(known["text"])]) }, at, turn);
    }
  }

  private add(row: Without<Row>, at: string, turn: number): number {
    const last = this.turns.at(-1)?.turn ?? 0;
    if (turn > last) {
      this.turnAt.set(this.rows.length, this.turns.length);
      this.turns.push({ turn, row: this.rows.length, began: at, ended: "" });
      this.rowsOfTurn = 0;
    }
    const own = this.rowsOfTurn++;
    const place = own === 0 ? `${turn}` : `${Math.max(turn, last)}.${own}`;
    const anchor = this.prefix ? `${this.prefix}.${this.rows.length}` : `t${place}`;
    this.rows.push({ ...row, anchor, at, turn } as Row);
    this.changed(this.rows.length - 1);
    return this.rows.length - 1;
  }

  private message(role: Role, update: Json, isChunk: boolean, at: string, turn: number): void {
    const id = text(update["messageId"]);
    const content = isChunk ? [object(update["content"])] : list(update["content"]);
    const known = this.messages.get(`${role} ${id}`);
    const last = this.rows.at(-1);
    const joins =
      last?.type === "message" && last.role === role && (!last.id || !id || last.id === id) &&
      (role !== "user" || last.turn === turn);
    const index = isChunk ? (joins ? this.rows.length - 1 : undefined) : id ? known : undefined;
    const row = index === undefined ? undefined : this.rows[index];
    if (index !== undefined && row?.type === "message") {
      if (isChunk) for (const block of content) append(row.blocks, block);
      else row.blocks = content;
      row.id ||= id;
      this.changed(index);
      return;
    }
    const blocks: Json[] = [];
    for (const block of content) append(blocks, block);
    this.messages.set(`${role} ${id}`, this.add({ type: "message", role, id, blocks }, at, turn));
  }

  private call(id: string, at: string, turn: number): ToolRow {
    let index = this.calls.get(id);
    if (index === undefined) {
      const call = { toolCallId: id };
      index = this.add(
        { type: "tool", call, terminals: this.terminals, children: [], ended: "", asked: [] }, at, turn);
      this.calls.set(id, index);
    }
    this.changed(index);
    return this.rows[index] as ToolRow;
  }

  private tool(update: Json, at: string, turn: number): void {
    const row = this.call(text(update["toolCallId"]), at, turn);
    for (const [name, value] of Object.entries(update)) {
      const says = value !== null || name === "rawInput" || name === "rawOutput";
      if (says && name !== "sessionUpdate") row.call[name] = value;
    }
    if (["completed", "failed"].includes(text(update["status"]))) row.ended = at;
    this.link(row);
  }

  /** Moves the subagents that a tool call names into it. */
  private link(row: ToolRow): void {
    for (const part of list(row.call["content"])) {
      const id = text(part["sessionId"]);
      if (part["type"] !== "session" || this.shared.linked.has(id)) continue;
      const index = this.calls.get(text(row.call["toolCallId"])) ?? 0;
      this.shared.linked.set(id, { row, conversation: this, index });
      const child = this.shared.children.get(id);
      if (child) row.children.push(child);
      const place = this.shared.places.get(id);
      const announced = place?.conversation.rows[place.index];
      if (place && announced?.type === "subagent") {
        announced.isLinked = true;
        place.conversation.changed(place.index);
      }
    }
  }

  private terminal(update: Json, isChunk: boolean): void {
    const id = text(update["terminalId"]);
    const terminal = this.terminals.get(id) ?? { output: "", exit: {} };
    const output = decoded(text(isChunk ? update["data"] : object(update["output"])["data"]));
    terminal.output = isChunk ? terminal.output + output : output || terminal.output;
    terminal.exit = object(update["exitStatus"] ?? terminal.exit);
    this.terminals.set(id, terminal);
    for (const index of this.calls.values()) {
      const row = this.rows[index];
      if (row?.type === "tool" && list(row.call["content"]).some((part) => part["terminalId"] === id)) {
        this.changed(index);
      }
    }
  }

  private plan(id: string, entries: Json[], at: string, turn: number): void {
    this.add({ type: "plan", entries, before: this.plans.get(id), removed: false }, at, turn);
    this.plans.set(id, entries);
  }

  private subagent(update: Json, at: string, turn: number): void {
    const id = text(update["sessionId"]) || text(update["subagentSessionId"]);
    let child = this.shared.children.get(id);
    if (child) {
      Object.assign(child.about, update);
      return this.touched(id);
    }
    // A subagent's rows have no list of their own: a change of one changes the row around them.
    const prefix = `s${this.shared.children.size + 1}`;
    const conversation = new Conversation(() => this.touched(id), prefix, this.shared);
    child = { id, about: { ...update }, conversation };
    this.shared.children.set(id, child);
    const linked = this.shared.linked.get(id);
    linked?.row.children.push(child);
    const index = this.add({ type: "subagent", child, isLinked: linked !== undefined }, at, turn);
    this.shared.places.set(id, { conversation: this, index });
  }

  private compaction(update: Json, at: string, turn: number): void {
    const id = text(update["compactionId"]);
    let index = this.compactions.get(id);
    if (index === undefined) {
      index = this.add({ type: "compaction", status: "", blocks: [], error: "" }, at, turn);
      this.compactions.set(id, index);
    }
    const row = this.rows[index];
    if (row?.type !== "compaction") return;
    row.status = text(update["status"]) || row.status;
    row.error = text(update["error"]) || row.error;
    if (Array.isArray(update["summary"])) row.blocks = list(update["summary"]);
    else if (update["content"]) append(row.blocks, object(update["content"]));
    this.changed(index);
  }

  private letter(update: Json, at: string, turn: number): void {
    const key = `letter ${text(update["messageId"])}`;
    const known = this.messages.get(key);
    const row = known === undefined ? undefined : this.rows[known];
    const content = update["content"];
    if (known !== undefined && row?.type === "letter") {
      if (Array.isArray(content)) row.blocks = list(content);
      else append(row.blocks, object(content));
      this.changed(known);
      return;
    }
    const [from, to] = [text(update["senderSessionId"]), text(update["recipientSessionId"])];
    const blocks = Array.isArray(content) ? list(content) : content ? [object(content)] : [];
    this.messages.set(key, this.add({ type: "letter", from, to, blocks }, at, turn));
  }

  /** The index of the row that has this fragment, or that contains the one that has it. */
  find(anchor: string): number {
    const within = (row: Row): boolean => {
      if (row.anchor === anchor) return true;
      const children = row.type === "tool" ? row.children : row.type === "subagent" && !row.isLinked ? [row.child] : [];
      return children.some(({ conversation }) => conversation.rows.some(within));
    };
    return this.rows.findIndex(within);
  }

  /** What a subagent is called. */
  nameOf(id: string): string {
    return text(this.shared.children.get(id)?.about["title"]) || "";
  }
}

type Without<T> = T extends unknown ? Omit<T, keyof Base> : never;

/** Appends a block; text continues text. */
function append(blocks: Json[], block: Json): void {
  const last = blocks.at(-1);
  if (last?.["type"] === "text" && block["type"] === "text") {
    blocks[blocks.length - 1] = { ...last, text: text(last["text"]) + text(block["text"]) };
  } else blocks.push(block);
}

/** Output of a terminal in base64, as version 2 of the protocol sends it. */
function decoded(data: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
  } catch {
    return data;
  }
}

/** How a turn ended, in words, if not as usual; and how grave that is. */
function howItEnded({ end }: TurnEnd): [string, string] {
  if (!end) return ["This turn has no end in the log: the agent is still working, or was stopped.", "warning"];
  const interrupted = text(end["interrupted"]);
  if (interrupted) return [`This turn was interrupted: ${interrupted}`, "warning"];
  const error = text(object(end["error"])["message"]);
  if (error) return [`This turn failed: ${error}`, "error"];
  switch (end["stopReason"]) {
    case "end_turn":
    case undefined:
      return ["", ""];
    case "cancelled":
      return ["The user cancelled this turn.", "warning"];
    case "refusal":
      return ["The agent refused to continue.", "error"];
    case "max_tokens":
      return ["This turn ended at the limit of tokens.", "warning"];
    case "max_turn_requests":
      return ["This turn ended at the limit of requests.", "warning"];
    default:
      return [`This turn ended: ${text(end["stopReason"])}`, "warning"];
  }
}

/** What became of a request for permission, in words. */
export function decided({ decision, words, client, at, decidedAt }: Permission): string {
  const when = fullTime(decidedAt || at);
  const where = client ? ` in ${client}` : "";
  switch (decision) {
    case "allowed":
      return `Allowed${where}, ${when}: ${words}`;
    case "rejected":
      return `Rejected${where}, ${when}: ${words}`;
    case "chosen":
      return `Answered${where}, ${when}: ${words}`;
    case "cancelled":
      return `Permission not given, ${when}: cancelled`;
    case "open":
      return `Permission asked for, ${when}: no answer so far`;
    default:
      return `Permission not given, ${when}: ${words}`;
  }
}

/** The text of a row that a search looks through. */
export function rowText(row: Row): string {
  switch (row.type) {
    case "message":
    case "letter":
      return row.blocks.map(blockText).join("\n");
    case "compaction":
      return [...row.blocks.map(blockText), row.error].join("\n");
    case "tool":
      return [toolText(row), ...row.children.map(childText)].join("\n");
    case "plan":
      return row.entries.map((entry) => text(entry["content"])).join("\n");
    case "subagent":
      return row.isLinked ? "" : childText(row.child);
    case "notice":
      return `${row.title}\n${row.detail}`;
    case "end":
      return row.words;
    case "other":
      return row.blocks.map(blockText).join("\n") || JSON.stringify(row.update);
  }
}

function toolText({ call, terminals, asked }: ToolRow): string {
  const parts = [text(call["title"]), ...asked.map(decided)];
  for (const part of list(call["content"])) {
    parts.push(blockText(object(part["content"])));
    parts.push(text(part["path"]), text(part["oldText"]), text(part["newText"]));
    parts.push(terminals.get(text(part["terminalId"]))?.output ?? "");
  }
  for (const place of list(call["locations"])) parts.push(text(place["path"]));
  for (const raw of [call["rawInput"], call["rawOutput"]]) {
    if (raw !== undefined) parts.push(written(raw));
  }
  return parts.filter(Boolean).join("\n");
}

function childText({ about, conversation }: Child): string {
  return [text(about["title"]), ...conversation.rows.map(rowText)].join("\n");
}

/** A raw value for people: text as it is, everything else as JSON. */
export function written(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
