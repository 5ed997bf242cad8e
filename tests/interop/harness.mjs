// The tests' own tools notice what they are there to notice.

import assert from "node:assert/strict";
import { check, finish } from "./support/checks.mjs";
import { Validator } from "./support/schema.mjs";
import { assertInterrupted, assertSame, fold, Transcript } from "./support/transcript.mjs";

const SESSION = "sess_1";
const json = (message) => JSON.stringify({ jsonrpc: "2.0", ...message });
const update = (sessionUpdate, rest) => ({ sessionUpdate, ...rest });
const said = (words, messageId = "m1") =>
  update("agent_message_chunk", { content: { type: "text", text: words }, messageId });
const notified = (it) => json({ method: "session/update", params: { sessionId: SESSION, update: it } });

/** The validator after a client that offers nothing has asked for these. */
function asked(...methods) {
  const validator = new Validator();
  validator.fromClient(json({ id: 0, method: "initialize", params: { protocolVersion: 1 } }));
  validator.fromAgent(Buffer.from(json({ id: 0, result: { protocolVersion: 1 } })));
  methods.forEach((method, index) => validator.fromClient(json({ id: index + 1, method, params: {} })));
  return validator;
}

const PROMPT_ANSWER = json({ id: 1, result: { stopReason: "end_turn" } });

await check("lines that keep the rules pass", () => {
  const validator = asked("session/prompt", "session/get", "session/list");
  for (const line of [
    notified(said("hi")),
    notified(update("tool_call", { toolCallId: "t", title: "T", rawInput: null, _meta: { a: 1 } })),
    json({ id: 3, error: { code: -32602, message: "no" } }),
    PROMPT_ANSWER,
    json({ id: 2, result: { anything: true } }),
    json({ method: "_ours/thing", params: {} }),
  ]) validator.fromAgent(Buffer.from(line));
  assert.deepEqual(validator.unanswered, []);
});

for (const [rule, ...lines] of [
  ["no JSON", "hello"],
  ["an array", "[]"],
  ["no version", JSON.stringify({ id: 1, result: { stopReason: "end_turn" } })],
  ["an update without a session", json({ method: "session/update", params: { update: said("hi") } })],
  ["an unknown kind of update", notified(update("agent_sings", {}))],
  ["a chunk without content", notified(update("agent_message_chunk", {}))],
  ["a tool call with an unknown status", notified(update("tool_call", { toolCallId: "t", title: "T", status: "bored" }))],
  ["an unknown stop reason", json({ id: 1, result: { stopReason: "tired" } })],
  ["a null result", json({ id: 1, result: null })],
  ["an array as a result", json({ id: 1, result: [] })],
  ["both result and error", json({ id: 1, result: {}, error: { code: 1, message: "x" } })],
  ["neither result nor error", json({ id: 1 })],
  ["an error without a code", json({ id: 1, error: { message: "x" } })],
  ["an error of two lines", json({ id: 1, error: { code: 1, message: "x\ny" } })],
  ["the code of signing in", json({ id: 1, error: { code: -32000, message: "x" } })],
  ["an answer to nothing", json({ id: 99, result: {} })],
  ["an answer to the text of a number", json({ id: "1", result: { stopReason: "end_turn" } })],
  ["a second answer", PROMPT_ANSWER, PROMPT_ANSWER],
  ["a null id for no reason", json({ id: null, error: { code: -32700, message: "x" } })],
  ["an unknown method", json({ method: "session/gossip", params: {} })],
  ["a file that was not offered", json({ id: 1, method: "fs/read_text_file", params: { sessionId: SESSION, path: "/a" } })],
  ["a terminal that was not offered", json({ id: 1, method: "terminal/create", params: { sessionId: SESSION, command: "a" } })],
]) {
  await check(`${rule} is noticed`, () => {
    const validator = asked("session/prompt");
    const last = lines.pop();
    for (const line of lines) validator.fromAgent(Buffer.from(line));
    assert.throws(() => validator.fromAgent(Buffer.from(last)));
  });
}

await check("bytes that are no UTF-8 are noticed", () => {
  const line = Buffer.from(notified(said("hi")));
  line[line.indexOf("hi")] = 0xff;
  assert.throws(() => asked().fromAgent(line));
});

/** A turn as it is seen live, with its prompt. */
function turn(updates) {
  const live = new Transcript();
  live.prompt([{ type: "text", text: "go" }]);
  updates.forEach((one) => live.update(one));
  return live;
}

const asking = update("user_message_chunk", { content: { type: "text", text: "go" }, messageId: "u1" });
const tool = update("tool_call", { toolCallId: "t", title: "T", status: "in_progress" });
const done = update("tool_call_update", { toolCallId: "t", status: "completed" });
const failed = update("tool_call_update", { toolCallId: "t", status: "failed" });
const LIVE = [said("a"), said("b"), tool, done, said("c", "m2")];

await check("a replay with merged chunks is the same", () => {
  assertSame(turn(LIVE), fold([asking, said("ab"), tool, done, said("c", "m2")]));
});

for (const [what, replay] of [
  ["a lost word", [asking, said("a"), tool, done, said("c", "m2")]],
  ["a lost call", [asking, said("ab"), said("c", "m2")]],
  ["another order", [asking, tool, done, said("ab"), said("c", "m2")]],
  ["another message id", [asking, said("ab", "m9"), tool, done, said("c", "m2")]],
  ["a lost prompt", LIVE],
  ["a call that still runs", [asking, said("ab"), tool, said("c", "m2")]],
  ["a word too much", [asking, said("ab"), tool, done, said("c", "m2"), said("d", "m2")]],
]) {
  await check(`${what} in a replay is noticed`, () => assert.throws(() => assertSame(turn(LIVE), fold(replay))));
}

await check("of an interrupted turn, the log may know more", () => {
  assertInterrupted(turn([said("a")]), fold([asking, said("ab")]));
  assertInterrupted(turn([said("a"), tool]), fold([asking, said("a"), tool, failed]));
});

await check("but not less, and no call may be left running", () => {
  for (const [live, replay] of [
    [[said("ab")], [asking, said("a")]],
    [[said("ab")], [asking]],
    [[said("ab"), tool], [asking, said("ab"), tool]],
    [[said("ab")], [asking, said("ab"), tool]],
    [[said("a"), tool, said("b")], [asking, said("ax"), tool, failed, said("b")]],
  ]) assert.throws(() => assertInterrupted(turn(live), fold(replay)));
});

finish();
