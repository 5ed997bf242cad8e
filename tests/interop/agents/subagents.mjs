// What a client sees of a subagent through rejoin: node subagents.mjs AGENT BINARY
//
// It is what the agent itself said in the same run, and a load in a new life replays it.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { finish, step } from "../support/checks.mjs";
import { assertPassed, recorded, updates } from "./support/passed.mjs";
import { Peer } from "./support/peer.mjs";
import { killAll } from "./support/processes.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, strike } = await stage(name);
const relay = [process.execPath, fileURLToPath(new URL("support/relay.mjs", import.meta.url))];
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

async function turn(peer) {
  const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [] });
  const prompt = [{ type: "text", text: "Please do SPAWN-1 now." }];
  await peer.request("session/prompt", { sessionId, prompt });
  return sessionId;
}

const isLast = ({ raw }) => raw.includes(LAST);

/** The updates of a subagent's messages, and what is said about it: what a replay shows again. */
function history(all) {
  const kinds = /"sessionUpdate":"(subagent_update|agent_message_chunk|agent_thought_chunk|tool_call|tool_call_update)"/;
  return all.filter(({ params }) => kinds.test(params.update));
}

let id, seen, child;

await step("the agent alone shows a subagent", async () => {
  const peer = await start(agent.command, 1);
  const parent = await turn(peer);
  const last = peer.lines.find(isLast);
  assert(last && last.message.params.sessionId !== parent, "there is no subagent");
  await peer.end();
});

await step("through rejoin the client sees what the agent says", async () => {
  const record = `${folder}/agent.lines`;
  const peer = await start([binary, "wrap", "--", ...relay, record, ...agent.command], 2);
  id = await turn(peer);
  child = peer.lines.find(isLast).message.params.sessionId;
  await peer.end();
  const said = recorded(record, "agent");
  const agents = said.map(JSON.parse).find(({ result }) => result?.sessionId).result.sessionId;
  seen = updates(peer.lines.map(({ raw }) => raw), { [id]: "the session" });
  assertPassed(seen, updates(said, { [agents]: "the session" }));
  await killAll(marker);
});

await step("a load replays it under the same ids", async () => {
  const peer = await start([binary, "wrap", "--replay", "exact", "--", ...agent.command], 3);
  await peer.request("session/load", { sessionId: id, cwd, mcpServers: [] });
  const replayed = updates(peer.lines.map(({ raw }) => raw), { [id]: "the session" });
  for (const { params } of replayed) delete params._meta;
  const of = (all) => history(all).filter(({ session }) => session === child);
  assert.deepEqual(of(replayed), of(seen));
  await peer.end();
});

await strike();
finish();
