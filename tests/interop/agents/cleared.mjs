// Drives an agent that clears its context inside of rejoin: node cleared.mjs AGENT BINARY
//
// The agent goes on in a session of its own that it does not name. It stays one session of rejoin's, in
// the list too, and after everything was killed the agent resumes it with what was said since.

import assert from "node:assert/strict";
import { finish, step } from "../support/checks.mjs";
import { Peer } from "./support/peer.mjs";
import { killAll } from "./support/processes.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, model, strike } = await stage(name);
let lives = 0;
let peer, sessionId;

async function start() {
  lives += 1;
  const command = [binary, "wrap", "--", ...agent.command];
  peer = new Peer(command, { cwd, env, record: `${folder}/life-${lives}.lines` });
  await peer.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: {},
    clientInfo: { name: "rejoin-interop", version: "1" },
  });
}

const prompt = (text) =>
  peer.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });

/** Whether the client was sent a line with this text, from the one numbered `from` on. */
const shown = (text, from = 0) => peer.lines.slice(from).some(({ raw }) => raw.includes(text));

await step("a plan is accepted, and the context cleared", async () => {
  await start();
  ({ sessionId } = await peer.request("session/new", { cwd, mcpServers: [] }));
  await prompt("Please do PLAIN-1 now.");
  await peer.request("session/set_mode", { sessionId, modeId: "plan" });
  await prompt("Please do LEAVE-2 now.");
  assert(shown("exit-plan-clear-"), "the agent does not offer to clear its context");
  assert(shown("End of PLAIN-PLANNED."), "the agent does not go on");
  // In which session it goes on is found out after the turn; until then it has an entry of its own.
  const deadline = Date.now() + 30_000;
  let sessions;
  do {
    assert(Date.now() < deadline, "it has more than one entry");
    ({ sessions } = await peer.request("session/list", { cwd }));
  } while (sessions.length > 1);
  await killAll(marker, peer.child.pid);
  await peer.exited;
});

await step("a load shows all of it, and the agent goes on where it was", async () => {
  await start();
  await peer.request("session/load", { sessionId, cwd, mcpServers: [] });
  for (const text of ["End of PLAIN-1.", "Please do LEAVE-2 now.", "End of PLAIN-PLANNED."]) {
    assert(shown(text), `${text} is not replayed`);
  }
  const from = peer.lines.length;
  await prompt("Please do PLAIN-3 now.");
  assert(!shown("[rejoin]", from) && shown("End of PLAIN-3.", from), "the agent does not go on");
  const { body } = model.turns.findLast(({ name: word }) => word === "PLAIN-3");
  assert(body.includes("End of PLAIN-PLANNED."), "the model does not know it");
  assert(!body.includes("End of PLAIN-1."), "the context was not cleared");
  const { sessions } = await peer.request("session/list", { cwd });
  assert.deepEqual(sessions.map((one) => one.sessionId), [sessionId]);
  assert.equal(await peer.end(), 0);
});

await strike();
finish();
