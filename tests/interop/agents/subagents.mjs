// What a client sees of a subagent through rejoin: node subagents.mjs AGENT BINARY
//
// It is what the agent itself said in the same run, and a load in a new life replays it.

import assert from "node:assert/strict";
import { finish, step } from "../support/checks.mjs";
import { assertPassed, relayed, said } from "./support/passed.mjs";
import { Peer } from "./support/peer.mjs";
import { killAll } from "./support/processes.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, strike } = await stage(name);
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

/** What a replay shows again of a subagent. */
const history = (all) => all.filter(({ update }) =>
  /"sessionUpdate":"(subagent_update|agent_message_chunk|agent_thought_chunk|tool_call|tool_call_update)"/.test(update))
  .map(({ update }) => update);

let id, child, seen;

await step("the agent alone shows a subagent", async () => {
  const peer = await start(agent.command, 1);
  const parent = await turn(peer);
  const last = peer.lines.find(isLast);
  assert(last && last.message.params.sessionId !== parent, "there is no subagent");
  await peer.end();
});

await step("through rejoin the client sees what the agent says", async () => {
  const record = `${folder}/agent.lines`;
  const peer = await start([binary, "wrap", "--", ...relayed(record, agent.command)], 2);
  id = await turn(peer);
  child = peer.lines.find(isLast).message.params.sessionId;
  await peer.end();
  seen = said(`${folder}/life-2.lines`);
  assertPassed(seen, said(record));
  await killAll(marker);
});

await step("a load replays it under the same ids", async () => {
  const peer = await start([binary, "wrap", "--replay", "exact", "--", ...agent.command], 3);
  await peer.request("session/load", { sessionId: id, cwd, mcpServers: [] });
  await peer.end();
  const replayed = said(`${folder}/life-3.lines`);
  assert.deepEqual(history(replayed[child]), history(seen[child]));
});

await strike();
finish();
