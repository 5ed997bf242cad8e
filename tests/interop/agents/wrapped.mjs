// Drives an agent inside of rejoin through three lives: node wrapped.mjs AGENT BINARY
//
// Everything is killed in the middle of an answer, and again while a permission is asked for; each
// time the next life replays what the client saw, byte for byte, and the model is told all of it. What
// the client saw in each life is held against what the agent said in it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { finish, step } from "../support/checks.mjs";
import { assertBytes, assertSeen, assertSnapshotsLast, isHistory } from "./support/history.mjs";
import { assertPassed, relayed, said } from "./support/passed.mjs";
import { PIXEL } from "./support/pixel.mjs";
import { Session } from "./support/session.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, model, strike } = await stage(name);
const record = (life) => `${folder}/agent-${life}.lines`;
const command = (options, life) => [binary, "wrap", ...options, "--", ...relayed(record(life), agent.command)];
const session = new Session({ ...agent, command, cwd, env, marker, folder });

/** What the model was asked last in the turn that this word stands for. */
function question(words) {
  const turn = model.turns.findLast((one) => one.name === words);
  assert(turn, `the model was never asked ${words}; it was asked ${model.turns.map((one) => one.name)}`);
  return turn.body;
}

/** The model knows the earlier turns: what the user said in each and how each answer ended. */
function assertRemembers(words, said) {
  const body = question(words);
  for (const it of said) assert(body.includes(it), `the model was not told ${it} before ${words}`);
}

await step("five turns: plain, with thoughts, with tools, with an image", async () => {
  await session.start();
  await session.new();
  for (const words of ["PLAIN-1", "THINK-2", "TOOL-3", "RUN-4"]) {
    assert.equal(await session.prompt(words), "end_turn", words);
  }
  assert.equal(await session.prompt("IMAGE-5", PIXEL), "end_turn");
  const seen = session.peer.lines.map(({ raw }) => raw).join("\n");
  for (const it of ["PLAIN-1", "THINK-2", "TOOL-3", "RUN-4", "IMAGE-5"]) {
    assert(seen.includes(`End of ${it}.`), `the answer to ${it} was not seen`);
  }
  assert(seen.includes("Pondering THINK-2."), "thoughts were not seen");
  assert.equal(readFileSync(`${cwd}/TOOL-3.txt`, "utf8"), "one line for TOOL-3\nand \u00e9 second\n");
});

await step("a turn that is cancelled, and one in which everything is killed", async () => {
  assert.equal(await session.cancel("SLOW-6", "chunk 4"), "cancelled");
  await session.kill("SLOW-7", "chunk 4");
});

/** What the client saw in a life, or from its first prompt on, is what the agent said. */
function assertPassedIn(life, { prompted = true, killed = true } = {}) {
  assertPassed(said(`${folder}/life-${life}.lines`, prompted), said(record(life), prompted), killed);
}

await step("all that the client saw is what the agent said", () => assertPassedIn(1, { prompted: false }));

await step("a load in a new life replays it byte for byte", async () => {
  await session.start(["--replay", "exact"]);
  const updates = await session.replay();
  assertSnapshotsLast(updates);
  assertBytes(session.turns, updates);
});

await step("and the conversation goes on: the model is told what was said", async () => {
  assert.equal(await session.prompt("PLAIN-8"), "end_turn");
  // Whether it remembers turns that did not end is up to the agent.
  const said = ["PLAIN-1", "THINK-2", "TOOL-3", "RUN-4", "IMAGE-5"];
  assertRemembers("PLAIN-8", [...said, "End of PLAIN-1.", "End of IMAGE-5."]);
});

await step("everything is killed while a tool is at work", async () => {
  await session.kill("TOOL-9", "TOOL-9.txt");
});

await step("what it saw in this life is what the agent said, too", () => assertPassedIn(2));

await step("the third life replays what was seen, and no tool call is left open", async () => {
  await session.start(["--unstable"]);
  const updates = await session.replay();
  assertSnapshotsLast(updates);
  assertSeen(session.turns, updates);
});

await step("and the conversation goes on once more", async () => {
  assert.equal(await session.prompt("PLAIN-10"), "end_turn");
  assertRemembers("PLAIN-10", ["PLAIN-1", "End of IMAGE-5.", "PLAIN-8", "End of PLAIN-8."]);
});

await step("a fork has the conversation, and goes on by itself", async () => {
  const { id, peer } = session;
  const place = { cwd, mcpServers: [] };
  const { sessionId } = await peer.request("session/fork", { sessionId: id, ...place });
  assert.notEqual(sessionId, id);
  const prompt = [{ type: "text", text: "Please do PLAIN-11 now." }];
  const { stopReason } = await peer.request("session/prompt", { sessionId, prompt });
  assert.equal(stopReason, "end_turn");
  assertRemembers("PLAIN-11", ["PLAIN-1", "End of IMAGE-5.", "End of PLAIN-10."]);
  const history = async (of) => {
    const from = peer.lines.length;
    await peer.request("session/load", { sessionId: of, ...place });
    return peer.updates(of, from).filter(isHistory).map((raw) => JSON.stringify(JSON.parse(raw)));
  };
  const [source, fork] = [await history(id), await history(sessionId)];
  assert.deepEqual(fork.slice(0, source.length), source, "the fork has another history");
  assert(fork.some((raw) => raw.includes("PLAIN-11")), "the fork does not go on");
});

await step("it ends with its input and leaves nothing running", async () => {
  assert.equal(await session.end(), 0);
  assertPassedIn(3, { killed: false });
});

/** How the agent came to know the conversation, each time that it got an id of its own. */
function inner() {
  const log = readFileSync(`${folder}/store/sessions/${session.id}.jsonl`, "utf8").trim().split("\n");
  const records = log.map(JSON.parse).filter(({ kind }) => kind === "inner");
  return records.map(({ payload }) => payload.how);
}

const { version } = session.hello.agentInfo;
console.log(JSON.stringify({ version, inner: inner(), took: session.took }));
await strike();
finish();
