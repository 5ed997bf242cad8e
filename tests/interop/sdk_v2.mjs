// The TypeScript SDK's version 2: a conversation is killed in mid-answer and resumed in a new
// process, with a replay from its start, from a message, and without one; and prompts with keys go
// through many kills.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
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

/** How much of what a client has shown a replay must show in the same way, and what else it showed. */
const screen = (updates) => {
  const transcript = new Transcript();
  let settled = 0;
  for (const update of updates) {
    transcript.update(update);
    if (transcript.state?.state === "idle") settled = transcript.items.length;
  }
  return { items: transcript.items, settled };
};

const words = (item) => (item.blocks ?? []).map((block) => block.text ?? "").join("");
const names = (items) => items.map((item) => item.tool ?? item.id ?? "plan");

/** That `later` shows all of `earlier`: in its place, once, with the words that had arrived. */
function goesOn(earlier, later) {
  assert.deepEqual(names(later.items).slice(0, earlier.items.length), names(earlier.items), "a gap");
  assert.equal(new Set(names(later.items)).size, later.items.length, "a double");
  const settled = (part) => shown(part.items.slice(0, earlier.settled));
  assert.deepEqual(settled(later), settled(earlier));
  for (const [at, item] of earlier.items.entries()) {
    assert(words(later.items[at]).startsWith(words(item)), `the words of item ${at} are others`);
  }
}

await step("prompts with keys go through kills at random instants, in turns and in replays", async () => {
  const prompts = ["/echo one", "/slow 6", "/mixed", "/slow 5", "/echo two", "/tool", "/slow 4", "/echo three"];
  const done = new Set();
  let before = { items: [], settled: 0 };
  let kills = 0;
  let cutReplays = 0;
  sessionId = undefined;
  for (let life = 0; done.size < prompts.length; life += 1) {
    assert(life < 100, "it comes to no end");
    let isWhole = false;
    const agent = await connected(async (sdk, agent) => {
      // Some die in the replay, which is longer with each life, some in a turn, and some live.
      const lines = randomInt(2, 30 + before.items.length);
      const killed = agent.until("its death", () => agent.received.length >= lines)
        .then(() => agent.kill()).then(() => { kills += 1; }, () => {});
      const work = async () => {
        if (sessionId === undefined) {
          ({ sessionId } = await sdk.request(methods.agent.session.new, { cwd, mcpServers: [] }));
        } else {
          const updates = await resumed(sdk, agent, sessionId, { type: "start" });
          const marks = updates.filter(({ sessionUpdate }) => sessionUpdate === "replay_complete");
          assert.equal(marks.length, 1, "the end of the replay is marked once");
          goesOn(before, screen(updates));
        }
        isWhole = true;
        const known = new Set(names(fold(agent.updates(sessionId)).items));
        for (const [number, words] of prompts.entries()) {
          if (done.has(number)) continue;
          const from = agent.received.length;
          const { messageId } = await sdk.request(methods.agent.session.prompt,
            { sessionId, prompt: text(words), idempotencyKey: `key ${number}` });
          // One that has begun in an earlier life is over.
          if (!known.has(messageId)) await agent.until(`the end of ${words}`, idle(sessionId), from);
          done.add(number);
        }
      };
      const died = agent.exited.then(() => "died");
      assert([undefined, "died"].includes(await Promise.race([work(), died.catch(() => {})]).catch(async (error) => {
        // What is under way fails with the process, and nothing else does.
        if (error instanceof assert.AssertionError) throw error;
        return within(5, `its death after ${error}`, died);
      })));
      if (done.size < prompts.length) await within(25, "the agent's last words", Promise.all([killed, agent.exited]));
    });
    assert.deepEqual(agent.problems, []);
    const now = screen(sessionId === undefined ? [] : agent.updates(sessionId));
    if (isWhole) {
      goesOn(before, now);
      before = now;
    } else if (sessionId !== undefined) {
      cutReplays += 1;
      const [cut, all] = [now, before].map(({ items }) => names(items));
      const both = Math.min(cut.length, all.length);
      assert.deepEqual(cut.slice(0, both), all.slice(0, both), "a replay that was cut has a gap");
    }
    if (agent.child.exitCode === null && agent.child.signalCode === null) await agent.end();
  }
  console.log(`# ${kills} kills, ${cutReplays} of them in a replay`);
  const agent = await connected(async (sdk, agent) => {
    const whole = screen(await resumed(sdk, agent, sessionId, { type: "start" }));
    goesOn(before, whole);
    const said = whole.items.filter((item) => item.role === "user").map(words);
    assert.deepEqual(said, prompts, "each prompt is there once, in its order");
    // Each key is answered with its first message, and nothing is inserted.
    const ids = whole.items.filter((item) => item.role === "user").map((item) => item.id);
    for (const [number, words] of prompts.entries()) {
      const { messageId } = await sdk.request(methods.agent.session.prompt,
        { sessionId, prompt: text(words), idempotencyKey: `key ${number}` });
      assert.equal(messageId, ids[number]);
    }
    assert.deepEqual(names(fold(agent.updates(sessionId)).items), names(whole.items));
  });
  await agent.end();
});

finish();
