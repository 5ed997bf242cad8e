// Drives an agent with subagents inside of rejoin in both versions of the protocol, in turns:
// node versions.mjs AGENT BINARY
//
// Version 2 is spoken by the TypeScript SDK's client. What it sees is what the agent said in the same
// run; everything is killed in a subagent's tool call, and each version shows what was recorded in the
// other one.

import assert from "node:assert/strict";
import { finish, step } from "../support/checks.mjs";
import { assertPassed, relayed, said } from "./support/passed.mjs";
import { Peer } from "./support/peer.mjs";
import { killAll } from "./support/processes.mjs";
import { Client } from "./support/sdk_v2.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, strike } = await stage(name);
const agents = (life) => `${folder}/agent-${life}.lines`;
const clients = (life) => `${folder}/life-${life}.lines`;
const command = (life) => [binary, "wrap", "--", ...relayed(agents(life), agent.command)];
const place = { cwd, mcpServers: [] };

let sessionId, child, client;

async function start(life) {
  client = new Client(command(life), { cwd, env, record: clients(life) });
  const hello = await client.initialize();
  assert.equal(hello.protocolVersion, 2);
}

/** The texts of the updates by session: all that was said in it. */
function texts(updates) {
  const found = {};
  for (const { sessionId: of, update } of updates) {
    const blocks = update.content?.type ? [update.content] : [];
    found[of] = (found[of] ?? "") + blocks.map(({ text }) => text ?? "").join("");
  }
  return found;
}

/** The tool calls that are left open, by what a client of either version was told. */
function open(updates) {
  const calls = new Map();
  for (const { update } of updates) {
    if (!/^tool_call(_update)?$/.test(update.sessionUpdate)) continue;
    calls.set(update.toolCallId, update.status ?? calls.get(update.toolCallId));
  }
  return [...calls].filter(([, status]) => !["completed", "failed", "cancelled"].includes(status));
}

/** The prompt is rejoin's to show and to number. */
function withoutPrompts(streams) {
  const isPrompt = ({ answers, update }) => answers === "session/prompt" || /"sessionUpdate":"user_message/.test(update);
  return Object.fromEntries(Object.entries(streams).map(([of, all]) => [of, all.filter((one) => !isPrompt(one))]));
}

await step("in version 2 a subagent answers, and the session is compacted", async () => {
  await start(1);
  ({ sessionId } = await client.request("session/new", place));
  await client.prompt(sessionId, "Please do SPAWN-1 now.");
  // A subagent may work in the background, longer than the turn that started it; its end starts another.
  const answered = await client.until("the subagent's answer", ({ sessionId: of, update }) =>
    of !== sessionId && JSON.stringify(update).includes("End of PLAIN-SPAWN1."));
  child = answered.sessionId;
  await client.prompt(sessionId, "/compact");
  await client.until("the end of the compaction", ({ update }) =>
    update.sessionUpdate === "compaction_update" && update.status === "completed");
});

await step("everything is killed in a subagent's tool call; the client saw what the agent said", async () => {
  client.permits = false;
  client.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "Please do SPAWN-TOOL3 now." }] }).catch(() => {});
  await client.until("the subagent's tool call", ({ sessionId: of, update }) =>
    of !== sessionId && JSON.stringify(update).includes("call_TOOLSPAWNTOOL3"));
  await killAll(marker, client.child.pid);
  assertPassed(withoutPrompts(said(clients(1))), withoutPrompts(said(agents(1))), true);
});

await step("version 1 shows it, and nothing is left open", async () => {
  const peer = new Peer(command(2), { cwd, env, record: clients(2) });
  const clientCapabilities = { subagents: {}, session: { compaction: {} } };
  await peer.request("initialize", { protocolVersion: 1, clientCapabilities });
  await peer.request("session/load", { sessionId, ...place });
  const updates = peer.lines.flatMap(({ message: { method, params } }) => (method === "session/update" ? [params] : []));
  const seen = texts(client.updates);
  for (const [of, text] of Object.entries(texts(updates))) {
    if (of === child) assert.equal(text, seen[of]);
  }
  assert(updates.some(({ sessionId: of }) => of === child), "the subagent is not replayed");
  assert(updates.some(({ update }) => update.sessionUpdate === "compaction_update"), "the compaction is not replayed");
  assert.deepEqual(open(updates), []);
  await peer.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "Please do PLAIN-4 now." }] });
  assert.equal(await peer.end(), 0);
});

await step("version 2 shows what was said in either, and goes on", async () => {
  await start(3);
  await client.request("session/resume", { sessionId, ...place, replayFrom: { type: "start" } });
  const seen = texts(client.updates);
  assert(seen[child].includes("End of PLAIN-SPAWN1."));
  assert(seen[sessionId].includes("End of PLAIN-4."), seen[sessionId]);
  assert.deepEqual(open(client.updates), []);
  await client.prompt(sessionId, "Please do PLAIN-5 now.");
  await client.until("the answer", ({ sessionId: of }) =>
    of === sessionId && texts(client.updates)[of].includes("End of PLAIN-5."));
  assert.equal(await client.end(), 0);
});

await strike();
finish();
