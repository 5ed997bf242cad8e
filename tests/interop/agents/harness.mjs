// The tools of these tests notice what they are there to notice, and the model answers everyone.

import assert from "node:assert/strict";
import { ModelServer } from "./model/server.mjs";
import { check, finish } from "../support/checks.mjs";
import { assertBytes, assertSeen, assertSnapshotsLast } from "./support/history.mjs";
import { assertPassed } from "./support/passed.mjs";
import { member } from "./support/raw.mjs";

const said = (text, more = "") => `{"sessionUpdate":"agent_message_chunk", "content":{"type":"text","text":${JSON.stringify(text)}}${more}}`;
const user = (block) => `{"sessionUpdate":"user_message_chunk","content":${JSON.stringify(block)},"messageId":"m"}`;
const call = (id) => `{"sessionUpdate":"tool_call","toolCallId":"${id}","title":"T","status":"pending"}`;
const status = (id, status) => `{"sessionUpdate":"tool_call_update","toolCallId":"${id}","status":"${status}"}`;
const commands = '{"sessionUpdate":"available_commands_update","availableCommands":[]}';
const prompt = [{ type: "text", text: "please" }, { type: "image", mimeType: "image/png", data: "AA==" }];
const asked = prompt.map(user);

await check("a member's text is what stands there", () => {
  const text = ' {"a" : [1,{"b":"}"}] ,"c":{"d":"\\"x\\\\", "e":1.50e3 }, "f" :null}';
  assert.equal(member(text, "a"), '[1,{"b":"}"}]');
  assert.equal(member(text, "c"), '{"d":"\\"x\\\\", "e":1.50e3 }');
  assert.equal(member(text, "c", "d"), '"\\"x\\\\"');
  assert.equal(member(text, "c", "e"), "1.50e3");
  assert.equal(member(text, "f"), "null");
  assert.equal(member(text, "g"), undefined);
  assert.equal(member(text, "f", "g"), undefined);
});

const turns = [{ prompt, updates: [user(prompt[0]), said("a"), commands, said("b")] }];

for (const [what, ok, ...replay] of [
  ["the same", true, ...asked, said("a"), said("b"), commands],
  ["more of the killed turn", true, ...asked, said("a"), said("b"), said("c")],
  ["a lost update", false, ...asked, said("a")],
  ["a changed space", false, ...asked, said("a"), said("b").replace(", ", ",")],
  ["a lost image", false, asked[0], said("a"), said("b")],
  ["another order", false, ...asked, said("b"), said("a")],
  ["the prompt twice", false, asked[0], ...asked, said("a"), said("b")],
  ["a note behind it", false, ...asked, said("a"), said("b"), user({ type: "text", text: "note" })],
]) {
  await check(`byte for byte: ${what}`, () => {
    if (ok) assertBytes(turns, replay);
    else assert.throws(() => assertBytes(turns, replay), assert.AssertionError);
  });
}

const killed = [...turns, { prompt, updates: [said("c"), call("t")] }];
const before = [...asked, said("ab")];

for (const [what, ok, ...replay] of [
  ["an open call is closed", true, ...before, ...asked, said("c"), call("t"), status("t", "failed")],
  ["an open call is left open", false, ...before, ...asked, said("c"), call("t")],
  ["an open call is lost", false, ...before, ...asked, said("c")],
  ["an answer is lost", false, ...asked, ...asked, said("c"), call("t"), status("t", "failed")],
]) {
  await check(`as it was seen: ${what}`, () => {
    if (ok) assertSeen(killed, replay);
    else assert.throws(() => assertSeen(killed, replay), assert.AssertionError);
  });
}

const shows = (content) => `{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[${content}]}`;
const terminal = '{"type":"terminal","terminalId":"1"}';
const told = '{"type":"content","content":{"type":"text","text":"output of RUN-1"}}';
const ran = [{ prompt, updates: [call("t"), shows(terminal), said("a")] }];

for (const [what, ok, ...replay] of [
  ["told as text", true, ...asked, call("t"), shows(told), said("a")],
  ["told twice", true, ...asked, call("t"), shows(told), shows(told), said("a")],
  ["named although it is gone", false, ...asked, call("t"), shows(terminal), said("a")],
  ["lost", false, ...asked, call("t"), said("a")],
]) {
  await check(`a terminal is ${what}`, () => {
    if (ok) assertBytes(ran, replay);
    else assert.throws(() => assertBytes(ran, replay), assert.AssertionError);
  });
}

await check("snapshots come last, and each once", () => {
  assertSnapshotsLast([said("a"), commands]);
  assert.throws(() => assertSnapshotsLast([commands, said("a")]));
  assert.throws(() => assertSnapshotsLast([said("a"), commands, commands]));
});

const passes = (...updates) => ({ "session 0": updates.map((update) => ({ method: "session/update", update })) });
const withId = said("a").replace(/}$/, ',"messageId":"m"}');
const twice = withId.replace('"m"', '"m~2"');
const titled = '{"sessionUpdate":"session_info_update","title":"T"}';

for (const [what, ok, mine, theirs, killed] of [
  ["the same", true, [said("a")], [said("a")]],
  ["an id inserted", true, [withId], [said("a")]],
  ["an id numbered", true, [twice], [withId]],
  ["an id lost", false, [said("a")], [withId]],
  ["a changed space", false, [said("a").replace(", ", ",")], [said("a")]],
  ["a title added", true, [said("a"), titled], [said("a")]],
  ["a title lost", false, [said("a")], [said("a"), titled]],
  ["the last word lost", false, [said("a")], [said("a"), said("b")]],
  ["the last word lost to a kill", true, [said("a")], [said("a"), said("b")], true],
  ["another order", false, [said("b"), said("a")], [said("a"), said("b")], true],
]) {
  await check(`what passed: ${what}`, () => {
    if (ok) assertPassed(passes(...mine), passes(...theirs), killed);
    else assert.throws(() => assertPassed(passes(...mine), passes(...theirs), killed), assert.AssertionError);
  });
}

const model = new ModelServer("/nowhere");
const url = await model.start();
const tools = [{ name: "Write", input_schema: { properties: { file_path: {}, content: {} } } }];
const gemini = [{ functionDeclarations: [{ name: "write_file", parameters: { properties: { file_path: {}, content: {} } } }] }];
const chat = [{ type: "function", function: { name: "write", parameters: { properties: { filePath: {}, content: {} } } } }];
const shell = [{ type: "function", name: "exec_command", parameters: { properties: { cmd: {} } } }];

/** How each dialect puts a question. */
const DIALECTS = {
  chat: (content) => ["/v1/chat/completions", { stream: true, tools: chat, messages: [{ role: "user", content }] }],
  responses: (text) => ["/v1/responses", { tools: shell, input: [{ role: "user", content: [{ type: "input_text", text }] }] }],
  messages: (content) => ["/v1/messages", { stream: true, tools, messages: [{ role: "user", content }] }],
  gemini: (text) => ["/v1beta/models/m:streamGenerateContent?alt=sse", { tools: gemini, contents: [{ role: "user", parts: [{ text }] }] }],
};

async function ask([path, body]) {
  const response = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.status, 200);
  return response.text();
}

for (const [dialect, question] of Object.entries(DIALECTS)) {
  await check(`the model speaks ${dialect}`, async () => {
    const plain = await ask(question("please PLAIN-1"));
    assert.match(plain, /^data: |^event: /);
    assert(plain.includes("Answer to PLAIN-1: ") && plain.includes(". End of PLAIN-1."), plain);
    assert.equal(await ask(question("please THINK-1")).then((text) => text.includes("Pondering THINK-1.")), true);
    assert((await ask(question("please TOOL-1"))).includes("/nowhere/TOOL-1.txt"));
    assert((await ask(question("nothing of ours"))).includes("An aside"));
    assert.deepEqual(model.turns.splice(0).map(({ name }) => name), ["PLAIN-1", "THINK-1", "TOOL-1"]);
  });
}

await model.stop();
finish();
