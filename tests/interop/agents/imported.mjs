// A conversation that ran without rejoin, imported and continued: node imported.mjs AGENT BINARY
//
// The import has what the agent's own client saw, and the agent goes on with it by its own id.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { finish, step } from "../support/checks.mjs";
import { Session } from "./support/session.mjs";
import { stage } from "./support/stage.mjs";

const SOURCES = {
  claude: "claude-code", codex: "codex", gemini: "gemini", kimi: "kimi", opencode: "opencode", qwen: "qwen",
};
/** What an agent says to its client and keeps nowhere: about the model that it does not know. */
const NOT_KEPT = /Warning: Model metadata for `fake-model` not found[^\n]*\n\n/g;
const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, model, strike } = await stage(name);

let bare = true;
const command = () => (bare ? agent.command : [binary, "wrap", "--", ...agent.command]);
const session = new Session({ ...agent, command, cwd, env, marker, folder });

/** What was said and done, of updates as text: the words of each message, and each tool call's end. */
function transcript(updates) {
  const said = {};
  const calls = new Map();
  for (const text of updates) {
    const update = JSON.parse(text);
    const kind = update.sessionUpdate;
    if (/^(user|agent)_message_chunk$/.test(kind)) {
      said[kind] = (said[kind] ?? "") + (update.content.text ?? `<${update.content.type}>`);
    } else if (/^tool_call(_update)?$/.test(kind)) {
      const { kind: what, status } = { ...calls.get(update.toolCallId), ...update };
      calls.set(update.toolCallId, { kind: what, status });
    }
  }
  const agent_message_chunk = said.agent_message_chunk.replace(NOT_KEPT, "");
  return { ...said, agent_message_chunk, calls: [...calls.values()].map(({ kind, status }) => `${kind} ${status}`) };
}

let live;

await step("the agent alone has a conversation", async () => {
  await session.start();
  await session.new();
  for (const words of ["PLAIN-1", "TOOL-3", "RUN-4"]) {
    assert.equal(await session.prompt(words), "end_turn", words);
  }
  live = transcript(session.peer.updates(session.id));
  await session.peer.end();
});

await step("its files are imported", () => {
  const output = execFileSync(binary, ["import", "--json", SOURCES[name]], { env });
  const [{ imported, failed, unknownRecords, damagedLines }] = JSON.parse(output);
  assert.deepEqual(
    { imported, failed, unknownRecords, damagedLines },
    { imported: 1, failed: 0, unknownRecords: 0, damagedLines: 0 },
  );
});

await step("a load shows what the agent's own client saw", async () => {
  bare = false;
  await session.start();
  const replayed = transcript(await session.replay());
  assert.equal(replayed.agent_message_chunk, live.agent_message_chunk);
  assert.deepEqual(replayed.calls, live.calls);
  for (const words of ["PLAIN-1", "TOOL-3", "RUN-4"]) {
    assert(replayed.user_message_chunk.includes(`Please do ${words} now.`), words);
  }
});

await step("the agent goes on with it", async () => {
  assert.equal(await session.prompt("PLAIN-8"), "end_turn");
  const { body } = model.turns.find((turn) => turn.name === "PLAIN-8");
  for (const words of ["PLAIN-1", "End of PLAIN-1.", "TOOL-3"]) assert(body.includes(words), words);
  await session.peer.end();
  const [log] = readdirSync(`${folder}/store/sessions`);
  const lines = readFileSync(`${folder}/store/sessions/${log}`, "utf8").trim().split("\n").map(JSON.parse);
  const ways = lines.filter(({ kind }) => kind === "inner").map(({ payload }) => payload.how);
  console.log(JSON.stringify(ways));
});

await strike();
finish();
