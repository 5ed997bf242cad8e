// The TypeScript SDK's version 2: a conversation is killed in mid-answer and resumed in a new
// process, with a replay from its start, from a message, and without one.

import assert from "node:assert/strict";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk/experimental/v2";
import { Agent, allow } from "./support/agent.mjs";
import { finish, step, within } from "./support/checks.mjs";
import { fold, Transcript } from "./support/transcript_v2.mjs";

const binary = process.argv[2];
const cwd = process.cwd();
const text = (words) => [{ type: "text", text: words }];

/** Runs `talk` with the SDK's view of a new agent and the agent's pipes. */
async function connected(talk) {
  const agent = new Agent(binary);
  const { readable, writable } = agent.streams();
  const connection = client({ name: "rejoin-interop" })
    .onRequest(methods.client.session.requestPermission, ({ params }) =>
      allow("session/request_permission", params))
    .onNotification(methods.client.session.update, () => {})
    .connect(ndJsonStream(writable, readable));
  const hello = await connection.agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    info: { name: "rejoin-interop", version: "1" },
    capabilities: {},
  });
  assert.equal(hello.protocolVersion, 2);
  assert(hello.capabilities.session, "sessions are declared");
  await talk(connection.agent, agent);
  connection.close();
  return agent;
}

/** Prompts, and waits until the session is idle again; returns the updates. */
async function turn(sdk, agent, sessionId, words) {
  const before = agent.received.length;
  const { messageId } = await sdk.request(methods.agent.session.prompt, { sessionId, prompt: text(words) });
  await agent.until(`the end of ${words}`, idle(sessionId), before);
  const updates = agent.updates(sessionId, agent.received.slice(before));
  const user = fold(updates).items.find((item) => item.role === "user");
  assert.equal(user?.id, messageId, "the prompt is shown under the id that was answered");
  return updates;
}

const idle = (sessionId) => ({ method, params }) =>
  method === "session/update" && params.sessionId === sessionId
  && params.update.sessionUpdate === "state_update" && params.update.state === "idle";

/** Resumes, and returns the updates before the answer. */
async function resumed(sdk, agent, sessionId, replayFrom) {
  const before = agent.received.length;
  const answer = await sdk.request(methods.agent.session.resume, { sessionId, cwd, mcpServers: [], replayFrom });
  assert.equal(typeof answer, "object");
  const lines = agent.received.slice(before);
  assert.equal(lines.at(-1).method, undefined, "the response is the last line");
  return agent.updates(sessionId, lines);
}

/** Items without what a replay may say differently of a turn that was killed. */
const shown = (items) => items.map(({ role, id, blocks, tool, plan }) => ({ role, id, blocks, tool, plan }));

let sessionId;
const live = new Transcript();
let afterTwoTurns;

await step("two turns end idle, then killed in the middle of the third", async () => {
  const agent = await connected(async (sdk, agent) => {
    ({ sessionId } = await sdk.request(methods.agent.session.new, { cwd, mcpServers: [] }));
    for (const words of ["hello from ts", "/mixed"]) {
      for (const update of await turn(sdk, agent, sessionId, words)) live.update(update);
      assert.equal(live.state.stopReason, "end_turn");
    }
    assert(live.text("agent").length > 0, "the agent said nothing");
    assert(live.items.some((item) => item.tool), "no tool call was shown");
    afterTwoTurns = structuredClone(live.items);

    const before = agent.received.length;
    await sdk.request(methods.agent.session.prompt, { sessionId, prompt: text("/slow 30") });
    const chunks = () => agent.updates(sessionId, agent.received.slice(before))
      .filter((update) => update.sessionUpdate === "agent_message_chunk");
    await agent.until("two chunks of the slow answer", () => chunks().length >= 2);
    await agent.kill();
    await within(5, "the agent's last words", agent.exited);
    for (const update of agent.updates(sessionId, agent.received.slice(before))) live.update(update);
  });
  assert.deepEqual(agent.problems, []);
});

await step("a replay from the start shows what was seen, and ends idle", async () => {
  const agent = await connected(async (sdk, agent) => {
    const replay = fold(await resumed(sdk, agent, sessionId, { type: "start" }));
    assert.deepEqual(replay.items.slice(0, afterTwoTurns.length), afterTwoTurns);
    assert.equal(replay.state.state, "idle");
    const [mine, theirs] = [replay.items.at(-1), live.items.at(-1)].map(({ blocks }) => blocks[0].text);
    assert(theirs.length > 0 && mine.startsWith(theirs), "the partial answer is there");
    for (const item of replay.items) {
      if (item.tool) assert(["completed", "failed", "cancelled"].includes(item.status), `${item.tool} still runs`);
    }
  });
  await agent.end();
});

await step("a replay from a message begins with it", async () => {
  const agent = await connected(async (sdk, agent) => {
    const whole = fold(await resumed(sdk, agent, sessionId, { type: "start" })).items;
    const at = whole.findIndex((item) => item.role === "user" && item.blocks[0].text === "/mixed");
    const cursor = { type: "_rejoin/message", messageId: whole[at].id };
    const part = fold(await resumed(sdk, agent, sessionId, cursor)).items;
    assert.deepEqual(shown(part), shown(whole.slice(at)));
  });
  await agent.end();
});

await step("no replay is none, and the conversation goes on; what is sent meanwhile waits", async () => {
  const agent = await connected(async (sdk, agent) => {
    const updates = await resumed(sdk, agent, sessionId, undefined);
    assert.deepEqual(fold(updates).items, []);
    const before = agent.received.length;
    const sent = ["/recall 1", "/recall 4"].map((words) =>
      sdk.request(methods.agent.session.prompt, { sessionId, prompt: text(words) }));
    const ids = (await Promise.all(sent)).map(({ messageId }) => messageId);
    const answered = () => fold(agent.updates(sessionId, agent.received.slice(before)));
    await agent.until("both answers", () => {
      const { items, state } = answered();
      return state?.state === "idle" && items.filter((item) => item.role === "agent").length >= 2;
    });
    const { items } = answered();
    assert.deepEqual(items.map((item) => item.role), ["user", "agent", "user", "agent"]);
    assert.deepEqual([items[0].id, items[2].id], ids);
    const [first, second] = [items[1], items[3]].map(({ blocks }) => blocks[0].text);
    assert(first.includes("/slow 30") && second.includes("hello from ts"), `${first}\n${second}`);
  });
  await agent.end();
});

finish();
