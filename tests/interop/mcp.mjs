// Other people's MCP servers, in Node.js and in Python, over stdio and over HTTP: their tools are
// listed and called, before rejoin is killed and after.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { Agent } from "./support/agent.mjs";
import { finish, step } from "./support/checks.mjs";

const binary = process.argv[2];
const here = import.meta.dirname;
const files = join(realpathSync(process.cwd()), "files");
mkdirSync(files);
writeFileSync(join(files, "greeting.txt"), "hello from a file\n");

const everything = join(here, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
const filesystem = join(here, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
const node = (name, ...args) => ({ name, command: process.execPath, args, env: [] });

/** A port that nobody listens on. */
const port = await new Promise((resolve, reject) => {
  const server = createServer().on("error", reject);
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** Starts the HTTP server and waits until somebody listens. */
async function serveHttp() {
  const server = spawn(process.execPath, [everything, "streamableHttp"], {
    env: { ...process.env, PORT: String(port) },
    stdio: "ignore",
  });
  for (let tries = 0; ; tries += 1) {
    const there = await new Promise((resolve) => {
      const socket = connect(port, "localhost", () => resolve(true)).on("error", () => resolve(false));
      socket.unref();
    });
    if (there) return server;
    assert(tries < 200, "the HTTP server does not start");
    await rest(50);
  }
}

async function endHttp(server) {
  const ended = new Promise((resolve) => server.once("close", resolve));
  server.kill("SIGKILL");
  await ended;
}

const mcpServers = [
  node("everything", everything, "stdio"),
  node("files", filesystem, files),
  { name: "time", command: join(here, ".venv/bin/python"), args: ["-m", "mcp_server_time"], env: [] },
  { name: "far", type: "http", url: `http://localhost:${port}/mcp`, headers: [] },
];

/** Calls a tool; gives back the updates of the turn, as one call. */
async function call(agent, sessionId, server, tool, args) {
  const from = agent.received.length;
  const { stopReason } = await agent.prompt(sessionId, `/call ${server} ${tool} ${args ?? ""}`);
  assert.equal(stopReason, "end_turn");
  const updates = agent.updates(sessionId, agent.received.slice(from));
  const calls = updates.filter((update) => update.sessionUpdate.startsWith("tool_call"));
  const said = updates.filter((update) => update.sessionUpdate === "agent_message_chunk");
  const words = said.map((update) => update.content.text).join("");
  assert(calls.length > 0, `no call was made: ${words}`);
  return Object.assign({}, ...calls, { words });
}

const texts = (made) => made.content.map(({ content }) => content.text ?? content.type).join(" ");

/** Calls a tool of each server. */
async function callAll(agent, sessionId) {
  const echo = await call(agent, sessionId, "everything", "echo", '{"message":"hi there"}');
  assert.equal(echo.status, "completed", echo.words);
  assert.match(texts(echo), /hi there/);
  const path = JSON.stringify({ path: join(files, "greeting.txt") });
  const read = await call(agent, sessionId, "files", "read_text_file", path);
  assert.match(texts(read), /hello from a file/);
  const time = await call(agent, sessionId, "time", "get_current_time", '{"timezone":"UTC"}');
  assert.match(texts(time), /UTC/);
  const far = await call(agent, sessionId, "far", "get-sum", '{"a":2,"b":40}');
  assert.match(texts(far), /42/, far.words);
}

let http = await serveHttp();
let agent = new Agent(binary);
let sessionId;

await step("servers in two languages and over HTTP are connected", async () => {
  const { agentCapabilities } = await agent.initialize();
  assert.deepEqual(agentCapabilities.mcpCapabilities, { http: true, sse: false });
  ({ sessionId } = await agent.newSession({ mcpServers }));
  await callAll(agent, sessionId);
});

await step("their tools are listed", async () => {
  const from = agent.received.length;
  await agent.prompt(sessionId, "/tools");
  const chunks = agent.updates(sessionId, agent.received.slice(from));
  const said = chunks.map((chunk) => chunk.content.text).join("");
  for (const word of ["**everything**", "**files**", "**time**", "**far**", "`read_text_file", "`get_current_time"]) {
    assert(said.includes(word), `${word} is not in: ${said}`);
  }
  assert(!said.includes("cannot be used") && !said.includes("still starting"), said);
});

await step("pictures and structured results come as content", async () => {
  const image = await call(agent, sessionId, "everything", "get-tiny-image");
  assert.equal(image.status, "completed");
  assert(image.content.some(({ content }) => content.type === "image"), JSON.stringify(image));
  const weather = await call(agent, sessionId, "everything", "get-structured-content", '{"location":"New York"}');
  assert.equal(typeof weather.rawOutput.structuredContent, "object");
});

await step("a server that refuses is an error of the call alone", async () => {
  const denied = await call(agent, sessionId, "files", "read_text_file", '{"path":"/etc/passwd"}');
  assert.equal(denied.status, "failed");
  assert.match(texts(denied), /denied/i);
  await callAll(agent, sessionId);
});

await step("progress is shown, and a long call can be cancelled", async () => {
  const from = agent.received.length;
  const text = '/call everything trigger-long-running-operation {"duration":60,"steps":120}';
  const id = agent.ask("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  await agent.until("progress", ({ params }) => params?.update?.content?.[0]?.content?.text?.includes("of 120"), from);
  agent.notify("session/cancel", { sessionId });
  const { result } = await agent.answer(id);
  assert.equal(result.stopReason, "cancelled");
  await callAll(agent, sessionId);
});

await step("after a kill, a load connects them again", async () => {
  await agent.kill();
  agent = new Agent(binary);
  await agent.initialize();
  const cwd = process.cwd();
  await agent.request("session/load", { sessionId, cwd, mcpServers });
  await callAll(agent, sessionId);
});

await step("an HTTP server that was started anew is found again", async () => {
  await endHttp(http);
  const gone = await agent.prompt(sessionId, '/call far get-sum {"a":2,"b":40}');
  assert.equal(gone.stopReason, "end_turn");
  http = await serveHttp();
  await callAll(agent, sessionId);
});

await step("nothing outlives the end of input", async () => {
  await agent.end();
  const left = () => {
    const children = `/proc/${process.pid}/task/${process.pid}/children`;
    return readFileSync(children, "utf8").trim().split(/\s+/).filter((pid) => pid !== String(http.pid));
  };
  assert.deepEqual(left().filter(Boolean), []);
  await endHttp(http);
});

finish();
