// What the protocol's own conformance suite asks of an agent, over bare pipes. M is mandatory,
// C counts when it is advertised, A is advice. Every line is held against the schema besides.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { Agent, allow } from "./support/agent.mjs";
import { check, finish } from "./support/checks.mjs";
import { fold } from "./support/transcript.mjs";

const binary = process.argv[2];
const cwd = process.cwd();
const text = (words) => [{ type: "text", text: words }];
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A check with an agent of its own that has been initialized; it must end in good order. */
function verify(name, body) {
  return check(name, async () => {
    const agent = new Agent(binary);
    agent.onRequest = allow;
    try {
      const hello = await agent.initialize();
      await body(agent, hello.agentCapabilities, hello);
      await agent.end();
    } finally {
      agent.child.kill("SIGKILL");
    }
  });
}

/** The same without `initialize`. */
function bare(name, body) {
  return check(name, async () => {
    const agent = new Agent(binary);
    try {
      await body(agent);
      await agent.end();
    } finally {
      agent.child.kill("SIGKILL");
    }
  });
}

/** Everything the agent says until it has answered one more request. */
async function rest(agent) {
  const before = agent.received.length;
  await agent.call("_rejoin_interop/are_you_done", {});
  return agent.received.slice(before, -1);
}

async function error(agent, method, params) {
  const response = await agent.call(method, params);
  assert(response.error, `${method} should fail: ${JSON.stringify(response)}`);
  return response.error;
}

await bare("M: initialize(1) answers 1", async (agent) => {
  const { protocolVersion, agentInfo } = await agent.request("initialize", { protocolVersion: 1 });
  assert.equal(protocolVersion, 1);
  assert.equal(agentInfo.name, "rejoin");
});

await bare("M: initialize with a version from the future succeeds with one we speak", async (agent) => {
  const { protocolVersion } = await agent.request("initialize", {
    protocolVersion: 65535,
    clientCapabilities: {},
    capabilities: {},
    info: { name: "rejoin-interop", version: "1" },
  });
  assert(protocolVersion >= 1 && protocolVersion < 65535, String(protocolVersion));
});

await verify("M: ids of every kind are echoed", async (agent) => {
  const ids = [0, -7, 9007199254740991, "a string", "", "7", "with \"quotes\" and \u2028"];
  for (const id of ids) {
    const { id: echoed } = await agent.call("session/list", {}, id);
    assert.strictEqual(echoed, id);
  }
});

await verify("M: notifications are never answered", async (agent) => {
  agent.notify("session/cancel", { sessionId: "sess_nobody" });
  agent.notify("_somebody/else", { a: 1 });
  agent.notify("no/such/notification", {});
  agent.notify("$/cancel_request", { requestId: 12345 });
  agent.notify("$/whatever", null);
  assert.deepEqual(await rest(agent), []);
});

await verify("M: an unknown extension method gets a response", async (agent) => {
  assert.equal((await error(agent, "_nobody/knows", {})).code, -32601);
});

await verify("A: an unknown method is -32601, and the connection lives on", async (agent) => {
  assert.equal((await error(agent, "session/teleport", {})).code, -32601);
  assert((await agent.newSession()).sessionId);
});

await verify("M: two sessions have two ids", async (agent) => {
  const [one, two] = [await agent.newSession(), await agent.newSession()];
  assert.notEqual(one.sessionId, two.sessionId);
});

await verify("M: a prompt's updates carry its session, and none follows its response", async (agent) => {
  const [{ sessionId }, other] = [await agent.newSession(), await agent.newSession()];
  await rest(agent);
  const before = agent.received.length;
  for (const words of ["hello", "/think", "/plan", "/image", "/tool", "/mixed", "/help", "/flood 50"]) {
    const { stopReason } = await agent.prompt(sessionId, words);
    assert.equal(stopReason, "end_turn", words);
  }
  const turns = agent.received.slice(before);
  assert.equal(agent.updates(sessionId, turns).length, turns.length - 8);
  assert.deepEqual(agent.updates(other.sessionId, turns), []);
  assert.deepEqual(await rest(agent), []);
});

await verify("M: cancel ends the turn as cancelled, with no update after", async (agent) => {
  const { sessionId } = await agent.newSession();
  const id = agent.ask("session/prompt", { sessionId, prompt: text("/slow 30") });
  await agent.until("the answer's begin", ({ params }) =>
    params?.update?.sessionUpdate === "agent_message_chunk");
  agent.notify("session/cancel", { sessionId });
  assert.equal((await agent.answer(id)).result.stopReason, "cancelled");
  assert.deepEqual(await rest(agent), []);
  assert.equal((await agent.prompt(sessionId, "and now?")).stopReason, "end_turn");
});

await verify("M: a cancel with nothing running poisons nothing", async (agent) => {
  const { sessionId } = await agent.newSession();
  agent.notify("session/cancel", { sessionId });
  assert.equal((await agent.prompt(sessionId, "hello")).stopReason, "end_turn");
});

await verify("A: a second prompt while one runs is refused, the first goes on", async (agent) => {
  const { sessionId } = await agent.newSession();
  const first = agent.ask("session/prompt", { sessionId, prompt: text("/slow 30") });
  await agent.until("the answer's begin", ({ params }) =>
    params?.update?.sessionUpdate === "agent_message_chunk");
  const refusal = await error(agent, "session/prompt", { sessionId, prompt: text("me too") });
  assert.equal(refusal.code, -32600);
  agent.notify("session/cancel", { sessionId });
  assert.equal((await agent.answer(first)).result.stopReason, "cancelled");
});

await verify("M: only what the client offered is asked of it", async (agent, _, { authMethods }) => {
  const terminal = (authMethods ?? []).filter(({ type }) => type === "terminal");
  assert.deepEqual(terminal, []);
  const { configOptions } = await agent.newSession();
  assert.deepEqual((configOptions ?? []).filter(({ type }) => type === "boolean"), []);
});

await verify("M: modes, where there are any, are consistent and can be set", async (agent) => {
  const { sessionId, modes } = await agent.newSession();
  if (!modes) return;
  const ids = modes.availableModes.map(({ id }) => id);
  assert(ids.includes(modes.currentModeId));
  for (const modeId of ids) await agent.request("session/set_mode", { sessionId, modeId });
});

await verify("M: config options, where there are any, are answered completely", async (agent) => {
  const { sessionId, configOptions = [] } = await agent.newSession();
  for (const { id, currentValue } of configOptions ?? []) {
    const params = { sessionId, configId: id, value: currentValue };
    const answer = await agent.request("session/set_config_option", params);
    assert.deepEqual(answer.configOptions.map((option) => option.id), configOptions.map((o) => o.id));
  }
});

await verify("C: a load sends every update before its response, and none after", async (agent, caps) => {
  assert.equal(caps.loadSession, true);
  const { sessionId } = await agent.newSession();
  for (const words of ["hello", "/mixed"]) await agent.prompt(sessionId, words);
  await agent.request("session/close", { sessionId });

  const before = agent.received.length;
  const result = await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  assert.equal(result.sessionId, sessionId);
  const replay = agent.received.slice(before, -1);
  assert.equal(agent.updates(sessionId, replay).length, replay.length);
  const transcript = fold(agent.updates(sessionId, replay));
  assert.equal(transcript.text("user"), "hello/mixed");
  assert.deepEqual(await rest(agent), []);
  for (const { params } of replay.filter(({ params }) => /_chunk$|tool|plan/.test(params.update.sessionUpdate))) {
    assert.match(params._meta.rejoin.at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  }
});

await verify("C: a session that was never prompted loads with an empty history", async (agent) => {
  const { sessionId } = await agent.newSession();
  await agent.request("session/close", { sessionId });
  const before = agent.received.length;
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  const transcript = fold(agent.updates(sessionId, agent.received.slice(before)));
  assert.deepEqual(transcript.items, []);
});

await verify("C: resume works without mcpServers and sends no history", async (agent, caps) => {
  assert(caps.sessionCapabilities.resume);
  const { sessionId } = await agent.newSession();
  await agent.prompt(sessionId, "hello");
  await agent.request("session/close", { sessionId });
  const before = agent.received.length;
  const result = await agent.request("session/resume", { sessionId, cwd });
  assert.equal(result.sessionId, sessionId);
  const transcript = fold(agent.updates(sessionId, agent.received.slice(before)));
  assert.deepEqual(transcript.items, []);
  assert.equal((await agent.prompt(sessionId, "hello again")).stopReason, "end_turn");
});

await verify("C: list takes no params, {} and a null folder; an unused folder has none", async (agent, caps) => {
  assert(caps.sessionCapabilities.list);
  const { sessionId } = await agent.newSession();
  await agent.prompt(sessionId, "hello");
  const all = await agent.request("session/list", {});
  assert.equal(all.sessions[0].sessionId, sessionId);
  assert.deepEqual(await agent.request("session/list", undefined), all);
  assert.deepEqual(await agent.request("session/list", { cwd: null }), all);
  assert.deepEqual((await agent.request("session/list", { cwd: "/nobody/works/here" })).sessions, []);
  assert.equal((await error(agent, "session/list", { cursor: "not one of ours" })).code, -32602);
});

await verify("C: delete works, of an unknown id too", async (agent, caps) => {
  assert(caps.sessionCapabilities.delete);
  const { sessionId } = await agent.newSession();
  await agent.prompt(sessionId, "hello");
  await agent.request("session/delete", { sessionId });
  await agent.request("session/delete", { sessionId });
  assert.equal((await error(agent, "session/load", { sessionId, cwd, mcpServers: [] })).code, -32602);
});

await verify("C: close in mid-prompt cancels it first", async (agent, caps) => {
  assert(caps.sessionCapabilities.close);
  const { sessionId } = await agent.newSession();
  const prompt = agent.ask("session/prompt", { sessionId, prompt: text("/slow 30") });
  await agent.until("the answer's begin", ({ params }) =>
    params?.update?.sessionUpdate === "agent_message_chunk");
  const close = agent.ask("session/close", { sessionId });
  assert.deepEqual((await agent.answer(close)).result, {});
  assert.equal((await agent.answer(prompt)).result.stopReason, "cancelled");
  const order = agent.received.filter(({ id }) => id === prompt || id === close);
  assert.deepEqual(order.map(({ id }) => id), [prompt, close]);
});

await verify("C: additional directories are taken where they are advertised", async (agent, caps) => {
  if (!caps.sessionCapabilities.additionalDirectories) return;
  const folder = mkdtempSync(join(process.env.INTEROP_DIR, "more-"));
  assert((await agent.newSession({ additionalDirectories: [folder] })).sessionId);
  const params = { cwd, mcpServers: [], additionalDirectories: ["not/absolute"] };
  assert.equal((await error(agent, "session/new", params)).code, -32602);
});

await verify("C: content of every advertised kind comes back as it was sent", async (agent, caps) => {
  const { image, audio, embeddedContext } = caps.promptCapabilities;
  const prompt = [
    { type: "text", text: "see\r\n\there: \u{1f980}\u2028" },
    { type: "resource_link", name: "notes", uri: "file:///notes.txt", mimeType: "text/plain", size: 3 },
    image && { type: "image", data: PIXEL, mimeType: "image/png", uri: "file:///pixel.png" },
    audio && { type: "audio", data: "UklGRgAAAAA=", mimeType: "audio/wav" },
    embeddedContext && { type: "resource", resource: { uri: "file:///a.txt", text: "a\n", mimeType: "text/plain" } },
    embeddedContext && { type: "resource", resource: { uri: "file:///a.bin", blob: "AAEC" } },
    { type: "text", text: "done", annotations: { audience: ["user"] }, _meta: { any: [1, null, "x"] } },
  ].filter(Boolean);
  const { sessionId } = await agent.newSession();
  const { stopReason } = await agent.request("session/prompt", { sessionId, prompt });
  assert.equal(stopReason, "end_turn");
  await agent.request("session/close", { sessionId });
  const before = agent.received.length;
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  const updates = agent.updates(sessionId, agent.received.slice(before));
  const user = updates.filter(({ sessionUpdate }) => sessionUpdate === "user_message_chunk");
  assert.deepEqual(user.map(({ content }) => content), prompt);
});

await verify("A: _meta is accepted everywhere", async (agent) => {
  const _meta = { "example.com/trace": "1" };
  const { sessionId } = await agent.newSession({ _meta });
  await agent.request("session/prompt", { sessionId, prompt: text("hello"), _meta });
  await agent.request("session/list", { _meta });
  await agent.request("session/close", { sessionId, _meta });
});

await verify("an unknown session is an error, not a refusal and not a new session", async (agent) => {
  for (const sessionId of ["sess_nobody", "../x", "/etc/passwd", "a/b", "a\\b", "", ".", "x".repeat(10_000), "a\u0000b"]) {
    for (const [method, params] of [
      ["session/load", { cwd, mcpServers: [] }],
      ["session/resume", { cwd, mcpServers: [] }],
      ["session/prompt", { prompt: text("hello") }],
    ]) {
      const { code } = await error(agent, method, { sessionId, ...params });
      assert.equal(code, -32602, `${method} of ${JSON.stringify(sessionId).slice(0, 40)}`);
    }
  }
  const { message, data } = await error(agent, "session/load", { sessionId: "sess_nobody", cwd, mcpServers: [] });
  assert.equal(message, "Session not found: sessionId does not exist or has expired");
  const details = "Session not found: sessionId does not exist or has expired";
  const name = "session_not_found";
  assert.deepEqual(data, { sessionId: "sess_nobody", error: name, code: name, details });
});

await verify("a folder that is not absolute is -32602 and named", async (agent) => {
  for (const bad of ["", "not/absolute"]) {
    const { code, message, data } = await error(agent, "session/new", { cwd: bad, mcpServers: [] });
    assert.equal(code, -32602);
    assert.match(`${message} ${JSON.stringify(data)}`, /cwd/);
  }
});

await verify("a missing parameter is -32602 and named, with nothing echoed back", async (agent) => {
  const secret = "hunter2";
  const mcpServers = [{ name: "m", command: "/bin/true", args: [], env: [{ name: "TOKEN", value: secret }] }];
  const failure = await error(agent, "session/new", { mcpServers });
  assert.equal(failure.code, -32602);
  assert.match(JSON.stringify(failure), /cwd/);
  assert(!JSON.stringify(failure).includes(secret));
});

await bare("what comes before initialize is -32600", async (agent) => {
  assert.equal((await error(agent, "session/new", { cwd, mcpServers: [] })).code, -32600);
});

await verify("malformed lines cost an error at most, and the connection lives on", async (agent) => {
  agent.raw("{\"jsonrpc\":\"2.0\",");
  agent.raw("");
  agent.raw("   ");
  agent.raw("not json at all");
  agent.raw("[]");
  agent.raw("42");
  const said = await rest(agent);
  for (const message of said) assert.equal(message.id, null);
  assert.equal((await agent.newSession()).sessionId.startsWith("sess_"), true);
});

await verify("an invalid request whose id can be read is answered with it", async (agent) => {
  agent.raw(JSON.stringify({ id: 4711, method: "session/list", params: {} }));
  const { error: failure } = await agent.answer(4711);
  assert.equal(failure.code, -32600);
});

await check("a file of requests in one burst is answered, every one once", async () => {
  const agent = new Agent(binary);
  const initialize = agent.ask("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const session = agent.ask("session/new", { cwd, mcpServers: [] });
  const list = agent.ask("session/list", {});
  await agent.end();
  const answers = agent.received.filter(({ method }) => method === undefined);
  // Nothing promises an order for requests that do not wait for each other.
  assert.equal(answers[0].id, initialize);
  assert.deepEqual(answers.map(({ id }) => id).sort(), [initialize, session, list]);
  assert(answers.every(({ result }) => result !== undefined));
});

await check("A: the end of input in mid-prompt ends the agent, and the log keeps the turn", async () => {
  let agent = new Agent(binary);
  await agent.initialize();
  const { sessionId } = await agent.newSession();
  agent.ask("session/prompt", { sessionId, prompt: text("/slow 30") });
  await agent.until("the answer's begin", ({ params }) =>
    params?.update?.sessionUpdate === "agent_message_chunk");
  const started = performance.now();
  agent.child.stdin.end();
  assert.equal(await agent.exited, 0);
  const took = performance.now() - started;
  assert(took < 3000, `it took ${took} ms to end`);
  assert.deepEqual(agent.problems, []);

  const live = fold(agent.updates(sessionId)).text("agent");
  agent = new Agent(binary);
  await agent.initialize();
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  const replay = fold(agent.updates(sessionId));
  assert.equal(replay.text("user"), "/slow 30");
  assert(replay.text("agent").startsWith(live) && live.length > 0);
  await agent.end();
});

await check("a second process shares the session, shows both what is said, and takes over after a crash", async () => {
  const first = new Agent(binary);
  const second = new Agent(binary);
  try {
    await first.initialize();
    await second.initialize();
    const { sessionId } = await first.newSession();
    await first.prompt(sessionId, "who has it?");
    const loaded = await second.request("session/load", { sessionId, cwd, mcpServers: [] });
    assert.equal(loaded._meta.rejoin.owner.pid, first.child.pid);
    assert.equal(fold(second.updates(sessionId)).text("user"), "who has it?");
    assert.equal((await second.prompt(sessionId, "me, too")).stopReason, "end_turn");
    const shown = () => fold(first.updates(sessionId)).text("user").includes("me, too");
    await first.until("the second client's prompt", shown);
    await first.kill();
    assert.equal((await second.prompt(sessionId, "now me")).stopReason, "end_turn");
    await second.end();
  } finally {
    first.child.kill("SIGKILL");
    second.child.kill("SIGKILL");
  }
});

finish();
