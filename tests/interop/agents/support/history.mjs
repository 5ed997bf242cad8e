// What of a session's updates is history, and how live and replayed history are held together.

import assert from "node:assert/strict";
import { fold, Transcript } from "../../support/transcript.mjs";
import { member } from "./raw.mjs";

/** State of which only the last word counts; a replay sends it behind the history. */
const SNAPSHOTS = new Set([
  "available_commands_update",
  "config_option_update",
  "current_mode_update",
  "session_info_update",
  "usage_update",
]);

const kind = (raw) => JSON.parse(raw).sessionUpdate;

export function isHistory(raw) {
  return !SNAPSHOTS.has(kind(raw));
}

/** Turns, each { prompt, updates } with the updates' texts, as one list of what a replay shows. */
function expected(turns) {
  return turns.flatMap(({ prompt, updates }) => [
    ...prompt.map((block) => ({ user: JSON.stringify(block) })),
    // An agent's echo of the prompt is the prompt, shown once.
    ...updates.filter((raw) => isHistory(raw) && !isUser(raw)),
  ]);
}

/** The same of a replay's updates. */
function replayed(updates) {
  return updates.filter(isHistory).map((raw) => (isUser(raw) ? { user: member(raw, "content") } : raw));
}

function isUser(raw) {
  return kind(raw) === "user_message_chunk";
}

/**
 * The tool calls that show a terminal of the client, which is gone when the session is loaded:
 * their content is not what it was. Terminals that the call brings with it are not meant.
 */
function withTerminals(turns) {
  const updates = turns.flatMap((turn) => turn.updates).map(JSON.parse);
  const own = new Set(updates.map(({ _meta }) => _meta?.terminal_info?.terminal_id));
  const shows = ({ content }) => Array.isArray(content)
    && content.some(({ type, terminalId }) => type === "terminal" && !own.has(terminalId));
  return new Set(updates.filter(shows).map(({ toolCallId }) => toolCallId));
}

/** What terminals showed is told as text, and no terminal is named that is not there. */
function assertTerminals(calls, updates) {
  const { items } = fold(updates.filter(isHistory).map(JSON.parse));
  for (const { tool, content } of items.filter((item) => calls.has(item.tool))) {
    assert.match(JSON.stringify(content), /output of RUN-/, `what the terminal of ${tool} showed is lost`);
    assert(content.every(({ type }) => type !== "terminal"), `${tool} names a terminal that is gone`);
  }
}

/** Snapshots come behind all history, and each kind once. */
export function assertSnapshotsLast(updates) {
  const first = updates.findIndex((raw) => !isHistory(raw));
  const behind = first < 0 ? [] : updates.slice(first);
  assert.deepEqual(behind.filter(isHistory), [], "history comes behind a snapshot");
  const kinds = behind.map(kind);
  assert.equal(new Set(kinds).size, kinds.length, `a snapshot comes twice: ${kinds}`);
}

/**
 * The replay is what was seen, byte for byte, of turns the last of which was killed in its answer:
 * of that the log knows perhaps more than the client.
 */
export function assertBytes(turns, updates) {
  const terminals = withTerminals(turns);
  const told = (update) => update.user || !terminals.has(JSON.parse(update).toolCallId);
  const [live, replay] = [expected(turns).filter(told), replayed(updates).filter(told)];
  for (const [at, wanted] of live.entries()) {
    assert.deepEqual(replay[at], wanted, `update ${at} of ${live.length} differs`);
  }
  for (const more of replay.slice(live.length)) {
    assert(!more.user && kind(more) === "agent_message_chunk", `not of the killed turn: ${JSON.stringify(more)}`);
  }
  assertTerminals(terminals, updates);
}

/**
 * The replay shows what was seen, of turns the last of which was killed in a tool call: nothing is
 * left running.
 */
export function assertSeen(turns, updates) {
  const live = new Transcript();
  for (const { prompt, updates: seen } of turns.slice(0, -1)) {
    live.prompt(prompt);
    seen.filter((raw) => isHistory(raw) && !isUser(raw)).forEach((raw) => live.update(JSON.parse(raw)));
  }
  const { items } = fold(updates.filter(isHistory).map(JSON.parse));
  const terminals = withTerminals(turns);
  const plain = (item) => (terminals.has(item.tool) ? { ...item, content: undefined } : item);
  assert.deepEqual(items.slice(0, live.items.length).map(plain), live.items.map(plain));
  assertTerminals(terminals, updates);
  const [prompt, ...killed] = items.slice(live.items.length);
  assert.deepEqual(prompt.blocks.map(({ content }) => content), turns.at(-1).prompt);
  const calls = killed.filter(({ tool }) => tool);
  const begun = turns.at(-1).updates.map(JSON.parse).filter(({ sessionUpdate }) => sessionUpdate === "tool_call");
  assert.deepEqual(calls.map(({ tool }) => tool), begun.map(({ toolCallId }) => toolCallId));
  for (const { tool, status } of calls) {
    assert(["completed", "failed"].includes(status), `${tool} is left ${status}`);
  }
}
