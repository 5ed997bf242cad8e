// The TypeScript SDK: sessions are listed, resumed, closed and deleted.

import assert from "node:assert/strict";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { Agent } from "./support/agent.mjs";
import { finish, step } from "./support/checks.mjs";
import { fold } from "./support/transcript.mjs";

const binary = process.argv[2];
const cwd = process.cwd();
const { session } = methods.agent;
const text = (words) => [{ type: "text", text: words }];

/** Runs `talk` on a new agent and ends it in good order. */
async function connected(talk) {
  const agent = new Agent(binary);
  const { readable, writable } = agent.streams();
  await client({ name: "rejoin-interop" })
    .onNotification(methods.client.session.update, () => {})
    .connectWith(ndJsonStream(writable, readable), async (sdk) => {
      await sdk.request(methods.agent.initialize, {
        protocolVersion: PROTOCOL_VERSION,
        clientCapabilities: {},
      });
      await talk(sdk, agent);
    });
  await agent.end();
}

const ids = [];

await step("three sessions in one process", () => connected(async (sdk) => {
  for (const words of ["apples", "pears", "plums"]) {
    const { sessionId } = await sdk.request(session.new, { cwd, mcpServers: [] });
    await sdk.request(session.prompt, { sessionId, prompt: text(words) });
    ids.push(sessionId);
  }
  assert.equal(new Set(ids).size, 3);
}));

await step("session/list shows them, newest first, and filters by folder", () => connected(async (sdk) => {
  const { sessions } = await sdk.request(session.list, {});
  assert.deepEqual(sessions.map(({ sessionId }) => sessionId), ids.toReversed());
  for (const { updatedAt, title, cwd: folder } of sessions) {
    assert.match(updatedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.equal(folder, cwd);
    assert(title.length > 0);
  }
  assert.deepEqual((await sdk.request(session.list, { cwd })).sessions, sessions);
  assert.deepEqual((await sdk.request(session.list, { cwd: "/nobody/works/here" })).sessions, []);
}));

await step("session/resume brings the context without the history", () => connected(async (sdk, agent) => {
  const [sessionId] = ids;
  const before = agent.received.length;
  await sdk.request(session.resume, { sessionId, cwd, mcpServers: [] });
  const transcript = fold(agent.updates(sessionId, agent.received.slice(before)));
  assert.deepEqual(transcript.items, [], "resuming sends no history");
  await sdk.request(session.prompt, { sessionId, prompt: text("/recall 1") });
  assert(fold(agent.updates(sessionId)).text("agent").includes("apples"));
}));

await step("session/close, then session/load in the same process", () => connected(async (sdk, agent) => {
  const sessionId = ids[1];
  await sdk.request(session.load, { sessionId, cwd, mcpServers: [] });
  const first = agent.updates(sessionId).length;
  assert(first > 0);
  assert.deepEqual(await sdk.request(session.close, { sessionId }), {});
  await assert.rejects(sdk.request(session.prompt, { sessionId, prompt: text("are you there?") }));
  await sdk.request(session.load, { sessionId, cwd, mcpServers: [] });
  assert.equal(agent.updates(sessionId).length, 2 * first);
}));

await step("session/delete takes it out of the list for good", () => connected(async (sdk) => {
  const sessionId = ids[2];
  await sdk.request(session.delete, { sessionId });
  const { sessions } = await sdk.request(session.list, {});
  assert(!sessions.some((listed) => listed.sessionId === sessionId));
  await assert.rejects(sdk.request(session.load, { sessionId, cwd, mcpServers: [] }), { code: -32602 });
  await sdk.request(session.delete, { sessionId });
}));

finish();
