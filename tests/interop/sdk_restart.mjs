// The TypeScript SDK: a conversation is killed in mid-answer and goes on in a new process.

import assert from "node:assert/strict";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { Agent, allow } from "./support/agent.mjs";
import { finish, step, within } from "./support/checks.mjs";
import { assertInterrupted, assertSame, fold, Transcript } from "./support/transcript.mjs";

const binary = process.argv[2];
const cwd = process.cwd();
const text = (words) => [{ type: "text", text: words }];

/** Runs `talk` with the SDK's view of a new agent and the agent's pipes. */
async function connected(talk) {
  const agent = new Agent(binary);
  const seen = [];
  const { readable, writable } = agent.streams();
  const connection = client({ name: "rejoin-interop" })
    .onRequest(methods.client.session.requestPermission, ({ params }) =>
      allow("session/request_permission", params))
    .onNotification(methods.client.session.update, ({ params }) => void seen.push(params))
    .connect(ndJsonStream(writable, readable));
  const hello = await connection.agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  assert.equal(hello.protocolVersion, PROTOCOL_VERSION);
  assert.equal(hello.agentCapabilities.loadSession, true);
  await talk(connection.agent, agent, seen);
  connection.close();
  return agent;
}

let sessionId;
let afterTwoTurns;
const live = new Transcript();

await step("two turns, then killed in the middle of the third", async () => {
  const agent = await connected(async (sdk, agent) => {
    ({ sessionId } = await sdk.request(methods.agent.session.new, { cwd, mcpServers: [] }));
    for (const words of ["hello from ts", "/mixed"]) {
      const before = agent.received.length;
      const prompt = text(words);
      const { stopReason } = await sdk.request(methods.agent.session.prompt, { sessionId, prompt });
      assert.equal(stopReason, "end_turn");
      live.prompt(prompt);
      agent.updates(sessionId, agent.received.slice(before)).forEach((update) => live.update(update));
    }
    assert(live.text("agent").length > 0, "the agent said nothing");
    assert(live.items.some((item) => item.tool), "no tool call was shown");
    afterTwoTurns = structuredClone(live.items);

    const before = agent.received.length;
    const prompt = text("/slow 30");
    const third = sdk.request(methods.agent.session.prompt, { sessionId, prompt });
    const killed = assert.rejects(third);
    const chunks = () => agent.updates(sessionId, agent.received.slice(before))
      .filter((update) => update.sessionUpdate === "agent_message_chunk");
    await agent.until("two chunks of the slow answer", () => chunks().length >= 2);
    await agent.kill();
    await within(5, "the SDK to notice", killed);
    live.prompt(prompt);
    agent.updates(sessionId, agent.received.slice(before)).forEach((update) => live.update(update));
  });
  assert.deepEqual(agent.problems, []);
});

await step("session/load in a new process replays what was seen", async () => {
  const agent = await connected(async (sdk, agent, seen) => {
    const before = agent.received.length;
    const loaded = await sdk.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
    assert.equal(typeof loaded, "object");
    const replay = agent.received.slice(before);
    assert.equal(replay.at(-1).method, undefined, "the response is the last line");
    const updates = agent.updates(sessionId, replay);
    assert.equal(updates.length, replay.length - 1, "nothing else is sent during the replay");
    assert.equal(seen.length, updates.length, "the SDK delivered all of them");

    const transcript = fold(updates);
    assertInterrupted(live, transcript);
    assertSame({ items: afterTwoTurns }, { items: transcript.items.slice(0, afterTwoTurns.length) });
    const partial = live.items.at(-1).blocks[0].content.text;
    assert(partial.length > 0 && transcript.text("agent").includes(partial), "the partial answer is there");

    const delivered = fold(seen.map(({ update }) => update));
    assert.equal(delivered.text("agent"), transcript.text("agent"));
    assert.equal(delivered.text("user"), "hello from ts/mixed/slow 30");
  });
  await agent.end();
});

await step("and the conversation goes on with its context", async () => {
  const agent = await connected(async (sdk, agent) => {
    await sdk.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
    for (const [back, words] of [[1, "/slow 30"], [3, "/mixed"], [5, "hello from ts"]]) {
      const before = agent.received.length;
      const prompt = text(`/recall ${back}`);
      const { stopReason } = await sdk.request(methods.agent.session.prompt, { sessionId, prompt });
      assert.equal(stopReason, "end_turn");
      const said = fold(agent.updates(sessionId, agent.received.slice(before))).text("agent");
      assert(said.includes(words), `/recall ${back} should quote ${words}, said: ${said}`);
    }
  });
  await agent.end();
});

finish();
