// Folds updates into what a person sees of a conversation, the same for live and replayed ones.

import assert from "node:assert/strict";

const ROLES = {
  user_message_chunk: "user",
  agent_message_chunk: "agent",
  agent_thought_chunk: "thought",
};

export class Transcript {
  /** Messages, tool calls and plans, in order. */
  items = [];
  #tools = new Map();

  /** What the client itself shows of a prompt; agents don't send it back. */
  prompt(blocks) {
    this.#message("user", undefined);
    for (const block of blocks) this.#block({ content: block });
  }

  update(update) {
    const { sessionUpdate: kind, ...rest } = update;
    if (ROLES[kind]) {
      const last = this.items.at(-1);
      // A user message is known by what it says: its id is made when it is recorded.
      const id = kind === "user_message_chunk" ? undefined : (rest.messageId ?? undefined);
      if (last?.role !== ROLES[kind] || last.id !== id) this.#message(ROLES[kind], id);
      this.#block(rest);
    } else if (kind === "tool_call" || kind === "tool_call_update") {
      const { toolCallId } = rest;
      if (kind === "tool_call") {
        assert(!this.#tools.has(toolCallId), `tool call ${toolCallId} begins twice`);
        this.#tools.set(toolCallId, { tool: toolCallId });
        this.items.push(this.#tools.get(toolCallId));
      }
      const tool = this.#tools.get(toolCallId);
      assert(tool, `tool call ${toolCallId} is updated before it begins`);
      delete rest.toolCallId;
      Object.assign(tool, rest);
    } else if (kind === "plan") {
      this.items.push({ plan: rest });
    }
  }

  /** All words of one role, joined. */
  text(role) {
    const items = this.items.filter((item) => item.role === role);
    return items.flatMap((item) => item.blocks.map((block) => block.content.text ?? "")).join("");
  }

  #message(role, id) {
    this.items.push({ role, id, blocks: [] });
  }

  #block({ content, _meta }) {
    const { blocks } = this.items.at(-1);
    const last = blocks.at(-1);
    const plain = (block) =>
      block?.content.type === "text" && !block.content.annotations && !block.content._meta && !block._meta;
    const block = _meta ? { content, _meta } : { content: { ...content } };
    if (plain(last) && plain(block)) last.content.text += content.text;
    else blocks.push(block);
  }
}

/** The transcript of messages as they are on the wire. */
export function fold(updates) {
  const transcript = new Transcript();
  for (const update of updates) transcript.update(update);
  return transcript;
}

/** A replay shows exactly what was seen live. */
export function assertSame(live, replay) {
  assert.deepEqual(replay.items, live.items);
}

/**
 * A replay shows what was seen live of a turn that was killed: all of it, perhaps more of the last
 * message (the log is written first), and nothing is left running.
 */
export function assertInterrupted(live, replay) {
  const last = live.items.at(-1);
  const expected = live.items.map((item) => {
    const open = item.tool && !["completed", "failed"].includes(item.status);
    return open ? { ...item, status: "failed" } : item;
  });
  const seen = replay.items.slice(0, expected.length).map((item, index) => {
    const before = live.items[index];
    if (item.tool && expected[index].status !== before.status) {
      // Why it failed may be said in its content.
      const content = (item.content ?? []).slice(0, before.content?.length ?? 0);
      return { ...item, ...(before.content ? { content } : undefined), content: before.content ? content : undefined };
    }
    if (before === last && item.role) return { ...item, blocks: prefix(item.blocks, before.blocks) };
    return item;
  });
  assert.deepEqual(seen.map(dropUndefined), expected.map(dropUndefined));
  for (const item of replay.items) {
    if (item.tool) assert(["completed", "failed"].includes(item.status), `${item.tool} still runs`);
  }
}

function dropUndefined(item) {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined));
}

function prefix(blocks, before) {
  const cut = structuredClone(blocks.slice(0, before.length));
  const [mine, theirs] = [cut.at(-1), before.at(-1)];
  if (mine?.content.text?.startsWith(theirs.content.text)) mine.content.text = theirs.content.text;
  return cut;
}
