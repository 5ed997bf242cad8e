// Holds what a client saw through rejoin against what its agent said in the same run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { texts } from "./raw.mjs";

/** The lines of one side, "agent" or "client", in what a relay wrote down. */
export function recorded(file, side) {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line.startsWith(`${side} `)).map((line) => line.slice(side.length + 1));
}

/**
 * The updates among lines as { session, params } with the text of each other parameter; a session
 * has the name that `names` gives it.
 */
export function updates(lines, names) {
  return lines.flatMap((raw) => {
    const { method, params } = JSON.parse(raw);
    if (method !== "session/update") return [];
    const { sessionId, ...others } = texts(texts(raw).params);
    return [{ session: names[params.sessionId] ?? params.sessionId, params: others }];
  });
}

/** A message gets an id if the agent gives it none; it stands last. */
function withoutInsertedId(seen, said) {
  const update = JSON.parse(said?.params.update ?? "{}");
  if (!/_chunk$/.test(update.sessionUpdate) || update.messageId !== undefined) return seen;
  const bare = seen.params.update.replace(/,"messageId":"[^"]*"\}$/, "}");
  return { ...seen, params: { ...seen.params, update: bare } };
}

/** Both are the same updates in the same order, byte for byte. */
export function assertPassed(seen, said) {
  assert.deepEqual(seen.map((one, at) => withoutInsertedId(one, said[at])), said);
}
