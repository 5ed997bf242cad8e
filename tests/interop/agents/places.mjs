// A session behind rejoin is forked at a cursor and goes back to an earlier prompt: node places.mjs AGENT BINARY
//
// Facts were planted before and after the places: the model is told those before, and never those after,
// also when everything was killed since.

import assert from "node:assert/strict";
import { finish, step } from "../support/checks.mjs";
import { isHistory } from "./support/history.mjs";
import { killAll } from "./support/processes.mjs";
import { Session } from "./support/session.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, model, strike } = await stage(name);
const command = () => [binary, "wrap", "--unstable", "--", ...agent.command];
const session = new Session({ ...agent, command, cwd, env, marker, folder });
const says = (text) => ({ type: "text", text });
const place = { cwd, mcpServers: [] };
let cursors;

/** The model was told these facts in the turn that this word stands for, and not those. */
function assertTold(words, facts, others) {
  const turn = model.turns.findLast((one) => one.name === words);
  assert(turn, `the model was never asked ${words}`);
  for (const fact of facts) assert(turn.body.includes(fact), `the model was not told ${fact} in ${words}`);
  for (const fact of others) assert(!turn.body.includes(fact), `the model was told ${fact} in ${words}`);
}

await step("a conversation with a fact in each of its three prompts", async () => {
  await session.start();
  await session.new();
  for (const n of [1, 2, 3]) {
    assert.equal(await session.prompt(`PLAIN-${n}`, says(`The goal is GOAL-471${n}.`)), "end_turn");
  }
  const { peer, id: sessionId } = session;
  ({ cursors } = await peer.request("_rejoin/cursors", { sessionId }));
  const before = cursors.filter(({ anchor }) => anchor.type === "user_message" && anchor.position === "before");
  assert.equal(before.length, 3, JSON.stringify(cursors));
  cursors = before.map(({ cursorId }) => cursorId);
});

await step("a fork before the third prompt knows the first two", async () => {
  const { peer } = session;
  const { sessionId } = await peer.request("session/fork", { sessionId: session.id, cursorId: cursors[2], ...place });
  const prompt = [says("Please do PLAIN-4 now.")];
  await peer.request("session/prompt", { sessionId, prompt });
  assertTold("PLAIN-4", ["GOAL-4711", "GOAL-4712"], ["GOAL-4713"]);
  // The source goes on with everything.
  assert.equal(await session.prompt("PLAIN-5"), "end_turn");
  assertTold("PLAIN-5", ["GOAL-4711", "GOAL-4712", "GOAL-4713"], []);
});

await step("back before the second prompt, the agent knows the first alone", async () => {
  const { peer, id: sessionId } = session;
  await peer.request("_rejoin/rewind", { sessionId, cursorId: cursors[1] });
  assert.equal(await session.prompt("PLAIN-6", says("The goal is GOAL-4716.")), "end_turn");
  assertTold("PLAIN-6", ["GOAL-4711", "GOAL-4716"], ["GOAL-4712", "GOAL-4713"]);
  const stale = peer.request("session/fork", { sessionId, cursorId: cursors[2], ...place });
  await assert.rejects(stale, /-32602/);
});

await step("everything is killed, and the session goes on as it is now", async () => {
  await killAll(marker, session.peer.child.pid);
  await session.peer.exited;
  await session.start();
  const shown = (await session.load()).filter(isHistory).join("\n");
  for (const fact of ["GOAL-4711", "GOAL-4716", "Went back to before turn 2."]) assert(shown.includes(fact), fact);
  for (const fact of ["GOAL-4712", "GOAL-4713"]) assert(!shown.includes(fact), fact);
  assert.equal(await session.prompt("PLAIN-7"), "end_turn");
  assertTold("PLAIN-7", ["GOAL-4711", "GOAL-4716"], ["GOAL-4712", "GOAL-4713"]);
});

await strike();
finish();
