// What a client sees of a subagent, from the agent alone and through rejoin: node subagents.mjs AGENT BINARY
//
// Both show the same updates under the same sessions, and a load in a new life replays them.

import assert from "node:assert/strict";
import { AGENTS, environment, furnish } from "./agents.mjs";
import { ModelServer } from "./model/server.mjs";
import { finish, step } from "../support/checks.mjs";
import { Peer } from "./support/peer.mjs";
import { killAll } from "./support/processes.mjs";

const [name, binary] = process.argv.slice(2);
const folder = process.env.INTEROP_DIR;
const marker = `REJOIN_AGENT_RUN=${folder}`;
const agent = AGENTS[name];
const model = new ModelServer(`${folder}/project`);
const url = await model.start();
const cwd = furnish(agent, folder, url);
const env = { ...environment(agent, folder, url, marker), REJOIN_STORE: `${folder}/store` };
const LAST = "End of PLAIN-SPAWN1.";

async function start(command, life) {
  const peer = new Peer(command, { cwd, env, record: `${folder}/life-${life}.lines` });
  await peer.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: { subagents: {} },
    clientInfo: { name: "rejoin-interop", version: "1" },
  });
  return peer;
}

/** The updates that are part of a conversation, each with the session it is of, in its order. */
function conversations(peer, own, from = 0) {
  const found = {};
  for (const { message: { method, params } } of peer.lines.slice(from)) {
    const kind = params?.update?.sessionUpdate;
    if (method !== "session/update" || !/^(subagent_update|agent_message_chunk)$/.test(kind)) continue;
    const session = params.sessionId === own ? "own" : "subagent";
    const { text } = params.update.content ?? {};
    const { state, capabilities } = params.update;
    (found[session] ??= []).push(JSON.stringify({ kind, text, state, capabilities }));
  }
  return found;
}

async function turn(peer) {
  const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [] });
  const prompt = [{ type: "text", text: "Please do SPAWN-1 now." }];
  await peer.request("session/prompt", { sessionId, prompt });
  return sessionId;
}

let alone, wrapped, id, session;

await step("the agent alone shows a subagent", async () => {
  const peer = await start(agent.command, 1);
  alone = conversations(peer, await turn(peer));
  assert(alone.subagent?.some((update) => update.includes(LAST)), JSON.stringify(alone));
  await peer.end();
});

await step("through rejoin the client sees the same", async () => {
  const peer = await start([binary, "wrap", "--", ...agent.command], 2);
  id = await turn(peer);
  wrapped = conversations(peer, id);
  // When the agent learns of the end is up to the agent, but not what is said.
  const sorted = (updates) => [...updates].sort();
  assert.deepEqual(wrapped.subagent, alone.subagent);
  assert.deepEqual(sorted(wrapped.own), sorted(alone.own));
  session = peer.lines.find(({ raw }) => raw.includes(LAST)).message.params.sessionId;
  await peer.end();
  await killAll(marker);
});

await step("a load replays it under the same ids", async () => {
  const peer = await start([binary, "wrap", "--replay", "exact", "--", ...agent.command], 3);
  await peer.request("session/load", { sessionId: id, cwd, mcpServers: [] });
  const replayed = conversations(peer, id);
  assert.deepEqual(replayed.subagent, wrapped.subagent);
  assert.equal(peer.lines.find(({ raw }) => raw.includes(LAST)).message.params.sessionId, session);
  await peer.end();
});

await killAll(marker);
await model.stop();
finish();
