// Folds updates of protocol version 2 into what a person sees, the same for live and replayed ones.

import assert from "node:assert/strict";

const ROLES = { user_message: "user", agent_message: "agent", agent_thought: "thought" };

export class Transcript {
  /** Messages, tool calls and plans, in the order in which they were first seen. */
  items = [];
  /** The last state that the agent told. */
  state = undefined;
  #known = new Map();

  update(update) {
    const { sessionUpdate: kind, ...rest } = update;
    const role = ROLES[kind.replace(/_chunk$/, "")];
    if (role && kind.endsWith("_chunk")) {
      this.#append(this.#message(role, rest.messageId), rest.content);
    } else if (role) {
      const message = this.#message(role, rest.messageId);
      if (rest.content !== undefined) {
        message.blocks = [];
        for (const block of rest.content ?? []) this.#append(message, block);
      }
    } else if (kind === "tool_call_update") {
      const { toolCallId, ...members } = rest;
      const call = this.#item(`tool ${toolCallId}`, { tool: toolCallId });
      for (const [name, value] of Object.entries(members)) {
        if (value === null && name !== "rawInput" && name !== "rawOutput") delete call[name];
        else call[name] = value;
      }
    } else if (kind === "tool_call_content_chunk") {
      const call = this.#item(`tool ${rest.toolCallId}`, { tool: rest.toolCallId });
      call.content = [...(call.content ?? []), rest.content];
    } else if (kind === "plan_update") {
      Object.assign(this.#item(`plan ${rest.plan.planId}`, {}), { plan: rest.plan });
    } else if (kind === "state_update") {
      this.state = rest;
    }
  }

  /** All words of one role, joined. */
  text(role) {
    const items = this.items.filter((item) => item.role === role);
    return items.flatMap((item) => item.blocks.map((block) => block.text ?? "")).join("");
  }

  #message(role, id) {
    assert.equal(typeof id, "string", `a chunk of the ${role} without a message`);
    const message = this.#item(`message ${id}`, { role, id, blocks: [] });
    assert.equal(message.role, role, `message ${id} is of two roles`);
    return message;
  }

  #item(key, fresh) {
    if (!this.#known.has(key)) {
      this.#known.set(key, fresh);
      this.items.push(fresh);
    }
    return this.#known.get(key);
  }

  #append(message, block) {
    const last = message.blocks.at(-1);
    const plain = (b) => b?.type === "text" && !b.annotations && !b._meta;
    if (plain(last) && plain(block)) last.text += block.text;
    else message.blocks.push({ ...block });
  }
}

/** The transcript of updates as they are on the wire. */
export function fold(updates) {
  const transcript = new Transcript();
  for (const update of updates) transcript.update(update);
  return transcript;
}
