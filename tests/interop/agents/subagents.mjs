// Drives an agent with subagents inside of rejoin: node subagents.mjs AGENT BINARY
//
// What the client sees of a subagent, of its requests and of a compaction is what the agent said in the
// same run. Everything is killed in the middle of a subagent's tool call; a load in a new life replays
// what was seen, and leaves nothing at work.

import assert from "node:assert/strict";
import { finish, step } from "../support/checks.mjs";
import { fold } from "../support/transcript.mjs";
import { assertPassed, relayed, said } from "./support/passed.mjs";
import { Peer } from "./support/peer.mjs";
import { killAll } from "./support/processes.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, strike } = await stage(name);
const agents = (life) => `${folder}/agent-${life}.lines`;
const clients = (life) => `${folder}/life-${life}.lines`;
let lives = 0;
let peer, sessionId;

async function start(command) {
  lives += 1;
  peer = new Peer(command, { cwd, env, record: clients(lives) });
  await peer.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: { subagents: {}, session: { compaction: {} } },
    clientInfo: { name: "rejoin-interop", version: "1" },
  });
}

const wrapped = (...options) =>
  start([binary, "wrap", ...options, "--", ...relayed(agents(lives + 1), agent.command)]);

/** Prompts without waiting for the answer. */
function ask(text) {
  return peer.ask("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
}

const prompt = (text) => peer.answer(ask(text), text);

async function create() {
  ({ sessionId } = await peer.request("session/new", { cwd, mcpServers: [] }));
}

/** The line of a subagent that has this text in it. */
const isOfSubagent = (text) => ({ raw, message }) =>
  raw.includes(text) && message.params?.sessionId !== undefined && message.params.sessionId !== sessionId;

/** The session of the first subagent that said this. */
const subagent = (text) => peer.lines.find(isOfSubagent(text))?.message.params.sessionId;

/** What a replay shows again of a session. */
const KINDS = /"sessionUpdate":"(subagent_update|session_message|agent_message_chunk|agent_thought_chunk|tool_call|tool_call_update|compaction_\w+)"/;
const history = (stream) => stream.map(({ update }) => update).filter((update) => KINDS.test(update));

/** The state of each subagent that was told last. */
function states(streams) {
  const updates = Object.values(streams).flat().map(({ update }) => JSON.parse(update ?? "{}"));
  const about = updates.filter(({ sessionUpdate, state }) => sessionUpdate === "subagent_update" && state);
  return new Map(about.map(({ sessionId, state }) => [sessionId, state.state]));
}

let seen;

await step("the agent alone shows a subagent", async () => {
  await start(agent.command);
  await create();
  await prompt("Please do SPAWN-1 now.");
  assert(subagent("End of PLAIN-SPAWN1."), "there is no subagent");
  await peer.end();
});

await step("through rejoin a subagent answers, another one uses a tool, and the session is compacted", async () => {
  await wrapped();
  await create();
  await prompt("Please do SPAWN-1 now.");
  const first = subagent("End of PLAIN-SPAWN1.");
  await prompt("Please do SPAWN-TOOL2 now.");
  const second = subagent("call_TOOLSPAWNTOOL2");
  assert(first && second && first !== second, "each subagent has a session of its own");
  if (agent.asks) {
    const asked = peer.lines.filter(({ message }) => message.method === "session/request_permission");
    assert.deepEqual(asked.map(({ message }) => message.params.sessionId), [second]);
  }
  await prompt("/compact");
  assert(peer.lines.some(({ raw }) => raw.includes('"compaction_update"')), "there was no compaction");
});

await step("everything is killed while a subagent's tool call waits", async () => {
  peer.permits = false;
  const from = peer.lines.length;
  ask("Please do SPAWN-TOOL3 now.");
  await peer.until("the subagent's tool call", isOfSubagent("call_TOOLSPAWNTOOL3"), from);
  await killAll(marker, peer.child.pid);
  await peer.exited;
  seen = said(clients(2));
});

await step("what the client saw is what the agent said", () => assertPassed(seen, said(agents(2)), true));

await step("a load replays it under the same ids, and nothing is left at work", async () => {
  await wrapped("--replay", "exact");
  await peer.request("session/load", { sessionId, cwd, mcpServers: [] });
  // Names the session as what was seen names it.
  await prompt("Please do PLAIN-4 now.");
  const replayed = said(clients(3));
  for (const [stream, updates] of Object.entries(seen)) {
    const before = history(updates);
    assert.deepEqual(history(replayed[stream] ?? []).slice(0, before.length), before, stream);
    const { items } = fold(history(replayed[stream] ?? []).map(JSON.parse));
    const open = items.filter(({ tool, status }) => tool && !["completed", "failed"].includes(status));
    assert.deepEqual(open, [], `a tool call of ${stream} is left open`);
  }
  for (const [child, state] of states(replayed)) {
    assert(["idle", "unknown"].includes(state), `${child} is left ${state}`);
  }
  assert.equal(await peer.end(), 0);
});

await strike();
finish();
