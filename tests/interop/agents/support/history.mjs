// What of a session's updates is history, and how live and replayed history are held together.

import assert from "node:assert/strict";

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

/** The update with which a replay shows one block of a prompt; its text comes out as it went in. */
function userChunk(block) {
  return { user: JSON.stringify(block) };
}

/** Turns, each { prompt, updates } with the updates' texts, as one list of what a replay shows. */
export function expected(turns) {
  return turns.flatMap(({ prompt, updates }) => [
    ...prompt.map(userChunk),
    // An agent's echo of the prompt is the prompt, shown once.
    ...updates.filter((raw) => isHistory(raw) && kind(raw) !== "user_message_chunk"),
  ]);
}

/** The same of a replay's updates. */
export function replayed(updates, member) {
  return updates.filter(isHistory).map((raw) =>
    kind(raw) === "user_message_chunk" ? { user: member(raw, "content") } : raw);
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
 * The replay is what was seen, byte for byte. `killed` says that the last turn was: the log knows
 * perhaps more of it than the client, and what was left open is closed.
 */
export function assertBytes(live, replay, killed) {
  for (const [at, wanted] of live.entries()) {
    assert.deepEqual(replay[at], wanted, `update ${at} of ${live.length} differs`);
  }
  const more = replay.slice(live.length);
  if (!killed) assert.deepEqual(more, []);
  for (const raw of more) {
    const update = typeof raw === "string" ? JSON.parse(raw) : raw;
    const closes = update.sessionUpdate === "tool_call_update" && update.status === "failed";
    assert(closes || update.sessionUpdate === "agent_message_chunk", `not of the killed turn: ${raw}`);
  }
}
