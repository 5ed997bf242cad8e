// A long conversation is recorded, killed twice and loaded; then the recording is held against the
// protocol's JSON schema once more, line by line.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Agent, allow } from "./support/agent.mjs";
import { finish, step } from "./support/checks.mjs";
import { Validator } from "./support/schema.mjs";
import { assertInterrupted, assertSame, fold, Transcript } from "./support/transcript.mjs";

const binary = process.argv[2];
const cwd = process.cwd();
const recordings = [];
const live = new Transcript();
let sessionId;

function start() {
  const record = join(process.env.INTEROP_DIR, `recording-${recordings.length}`);
  recordings.push(record);
  const agent = new Agent(binary, { record });
  agent.onRequest = allow;
  return agent;
}

/** Prompts, and adds what came of it to the live transcript. */
async function turn(agent, prompt, enough) {
  const before = agent.received.length;
  live.prompt(prompt);
  const id = agent.ask("session/prompt", { sessionId, prompt });
  if (enough) {
    const seen = (message) => enough.test(message.params?.update ?? {});
    await agent.until(enough.what, seen, before);
    await agent.kill();
  } else {
    await agent.answer(id);
  }
  agent.updates(sessionId, agent.received.slice(before)).forEach((update) => live.update(update));
}

async function load(agent) {
  const before = agent.received.length;
  await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  return fold(agent.updates(sessionId, agent.received.slice(before)));
}

function log() {
  return readFileSync(join(process.env.REJOIN_STORE, "sessions", `${sessionId}.jsonl`));
}

const text = (words) => [{ type: "text", text: words }];

await step("every kind of turn, killed in the middle of a flood", async () => {
  const agent = start();
  await agent.initialize();
  ({ sessionId } = await agent.newSession());
  const words = ["hi", "/think", "/plan", "/image", "/tool", "/mixed", "/fail", "/echo a\r\n\tb \u2028 \u0000 \u{1f980}", "/help", "/history"];
  for (const one of words) await turn(agent, text(one));
  await turn(agent, [
    { type: "text", text: "before" },
    { type: "resource_link", name: "notes", uri: "file:///notes.txt", size: 3, title: "Notes" },
    { type: "text", text: "after", annotations: { priority: 0.5 }, _meta: { kept: [1, null] } },
  ]);
  let chunks = 0;
  await turn(agent, text("/flood 100000"), {
    what: "some of the flood",
    test: () => (chunks += 1) > 300,
  });
  assert.deepEqual(agent.problems, []);
});

await step("loading replays it, and killed in the middle of a tool call", async () => {
  const agent = start();
  await agent.initialize();
  assertInterrupted(live, await load(agent));
  // What the log has is what counts from now on: it may know more of the flood than the client.
  live.items = (await load(agent)).items;
  await turn(agent, text("/tool slow 30"), {
    what: "the slow tool call",
    test: (update) => update.sessionUpdate === "tool_call",
  });
  assert(live.items.some((item) => item.tool && !["completed", "failed"].includes(item.status)));
  assert.deepEqual(agent.problems, []);
});

await step("loading twice gives the same, and writes nothing the second time", async () => {
  const agent = start();
  await agent.initialize();
  const first = await load(agent);
  assertInterrupted(live, first);
  const before = log();
  assertSame(first, await load(agent));
  assert(before.equals(log()), "loading changed the log");
  await agent.end();
});

await step("the recording passes the schema, line by line", () => {
  let lines = 0;
  for (const file of recordings) {
    const validator = new Validator();
    for (const line of readFileSync(file, "utf8").split("\n").filter(Boolean)) {
      const [, from, message] = /^(client|agent) (.*)$/s.exec(line);
      if (from === "client") validator.fromClient(message);
      else validator.fromAgent(Buffer.from(message));
      lines += 1;
    }
  }
  assert(lines > 500, `only ${lines} lines`);
});

await step("one file holds the session", () => {
  const files = readdirSync(join(process.env.REJOIN_STORE, "sessions"));
  assert.deepEqual(files.filter((file) => file.endsWith(".jsonl")), [`${sessionId}.jsonl`]);
});

finish();
