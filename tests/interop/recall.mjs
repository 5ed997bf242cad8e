// The official MCP SDK talks to `rejoin mcp` about conversations that an ACP client had.

import assert from "node:assert/strict";
import { mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Agent } from "./support/agent.mjs";
import { finish, step } from "./support/checks.mjs";

const binary = process.argv[2];
const here = realpathSync(process.cwd());
const elsewhere = join(here, "elsewhere");
mkdirSync(elsewhere);

let session;
let other;

await step("there are conversations in two folders", async () => {
  const agent = new Agent(binary);
  await agent.initialize();
  ({ sessionId: session } = await agent.newSession({ cwd: here }));
  await agent.prompt(session, "Remember the capacitor of the kiosk");
  await agent.prompt(session, "/edit");
  ({ sessionId: other } = await agent.newSession({ cwd: elsewhere }));
  await agent.prompt(other, "Paint the boat");
  await agent.end();
});

async function connect(...args) {
  const client = new Client({ name: "interop", version: "1" });
  const transport = new StdioClientTransport({
    command: binary,
    args: ["mcp", ...args],
    cwd: here,
    env: { ...process.env },
    stderr: "inherit",
  });
  await client.connect(transport);
  return client;
}

/** Calls a tool that answers; its text and its object are both there. */
async function call(client, name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert(!result.isError, JSON.stringify(result));
  return { text: result.content.map(({ text }) => text).join(""), object: result.structuredContent };
}

async function refusal(client, name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert.equal(result.isError, true, JSON.stringify(result));
  return result.content[0].text;
}

const client = await connect();

await step("it introduces itself and its tools", async () => {
  assert.equal(client.getServerVersion().name, "rejoin");
  assert(client.getInstructions().includes(`held in ${here}`));
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), ["search", "read", "list"]);
  for (const { name, annotations, inputSchema, outputSchema } of tools) {
    assert.equal(annotations.readOnlyHint, true, name);
    assert.equal(inputSchema.type, "object", name);
    assert.equal(outputSchema.type, "object", name);
  }
});

// From here on the SDK holds each answer against the tool's schema.
await step("conversations are listed and searched", async () => {
  const { object } = await call(client, "list", {});
  assert.deepEqual(object.sessions.map((one) => one.session), [session]);
  const { text, object: found } = await call(client, "search", { words: "capacitor" });
  assert.deepEqual(found.sessions.map((one) => one.session), [session]);
  assert(text.includes("capacitor"), text);
  assert.deepEqual((await call(client, "search", { words: "boat" })).object.sessions, []);
});

await step("a conversation is read, by page and around a word", async () => {
  const { text, object } = await call(client, "read", { session });
  assert(text.includes("the user]\nRemember the capacitor of the kiosk"), text);
  assert.deepEqual(object.turns.map(({ turn }) => turn), [1, 2]);
  const { object: last } = await call(client, "read", { session, turn: -1 });
  assert.deepEqual(last.turns.map(({ turn }) => turn), [2]);
  const { object: around } = await call(client, "read", { session, around: "kiosk" });
  assert.equal(around.turns[0].turn, 1);
});

await step("what is out of scope is refused, and shown if it is allowed", async () => {
  assert.match(await refusal(client, "read", { session: other }), /rejoin mcp --all/);
  assert.match(await refusal(client, "list", { folder: elsewhere }), /not shown here/);
  assert.match(await refusal(client, "read", { session: "nobody" }), /there is no session/);
  const all = await connect("--all");
  assert.equal((await call(all, "list", {})).object.sessions.length, 2);
  assert.match((await call(all, "read", { session: other })).text, /Paint the boat/);
  await all.close();
});

await client.close();
finish();
