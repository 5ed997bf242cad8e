// Writes logs of sessions, as docs/format.md specifies them.
import { mkdirSync, writeFileSync } from "node:fs";
import { crc32 } from "node:zlib";

/** A log that is being written: a record after the other, a second apart. */
export class Log {
  #lines = [];
  #at = Date.UTC(2026, 10, 20, 9, 30);
  #prompts = 0;

  constructor(number, { cwd = "/home/ada/projects/cache", engine = "claude-code", format = 1 } = {}) {
    this.id = `sess_019aa58a-7e10-7c42-a3b5-${String(number).padStart(12, "0")}`;
    this.record("session", {
      format, sessionId: this.id, cwd, engine: { name: engine, version: "1.0.0" }, protocolVersion: format,
    });
  }

  /** Time goes by. */
  wait(seconds) {
    this.#at += seconds * 1000;
    return this;
  }

  record(kind, payload, id) {
    this.#at += 1000;
    const at = new Date(this.#at).toISOString();
    const rest = JSON.stringify({ seq: this.#lines.length, at, kind, ...(id && { id }), payload }).slice(1);
    const crc = crc32(rest).toString(16).padStart(8, "0");
    this.#lines.push(`{"crc":"${crc}",${rest}\n`);
    return this;
  }

  prompt(...blocks) {
    const prompt = blocks.map((block) => (typeof block === "string" ? { type: "text", text: block } : block));
    return this.record("prompt", { prompt }, `msg_${++this.#prompts}`);
  }

  update(sessionUpdate, members) {
    return this.record("update", { sessionUpdate, ...members });
  }

  /** An update in the form of version 2 of the protocol. */
  update2(sessionUpdate, members) {
    return this.record("update_v2", { update: { sessionUpdate, ...members } });
  }

  says(text) {
    return this.update("agent_message_chunk", { content: { type: "text", text }, messageId: `a${this.#lines.length}` });
  }

  thinks(text) {
    return this.update("agent_thought_chunk", { content: { type: "text", text } });
  }

  /** A tool call, from its beginning to its end. */
  call(toolCallId, { content, status = "completed", seconds = 2, ...members }) {
    this.update("tool_call", { toolCallId, status: "in_progress", ...members });
    return this.wait(seconds).update("tool_call_update", { toolCallId, status, content });
  }

  end(members = { stopReason: "end_turn" }) {
    return this.record("end", members);
  }

  write(store) {
    mkdirSync(`${store}/sessions`, { recursive: true });
    writeFileSync(`${store}/sessions/${this.id}.jsonl`, this.#lines.join(""));
    return this.id;
  }
}

export const text = (value) => ({ type: "content", content: { type: "text", text: value } });
