// Several real clients have one session at once, each with a rejoin of its own: acpx, the TypeScript
// SDK in both versions of the protocol, and the Python SDK. All see what any of them prompts. When the
// process that has the session is killed, the others go on.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, realpathSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import * as v2 from "@agentclientprotocol/sdk/experimental/v2";
import { children, run } from "./support/acpx.mjs";
import { Agent, allow } from "./support/agent.mjs";
import { finish, step, within } from "./support/checks.mjs";
import { command } from "./support/command.mjs";
import { fold } from "./support/transcript.mjs";
import { fold as fold2 } from "./support/transcript_v2.mjs";

const binary = process.argv[2];
const cwd = process.cwd();
const python = fileURLToPath(new URL(".venv/bin/python", import.meta.url));
const attached = fileURLToPath(new URL("support/attached.py", import.meta.url));
const text = (words) => [{ type: "text", text: words }];

const acpx = (...args) => run(binary, ...args);

/** A client of the TypeScript SDK that has loaded the session. */
class First {
  agent = new Agent(binary);

  async open() {
    const { readable, writable } = this.agent.streams();
    this.connection = client({ name: "ts-1" })
      .onRequest(methods.client.session.requestPermission, ({ params }) => allow("session/request_permission", params))
      .onNotification(methods.client.session.update, () => {})
      .connect(ndJsonStream(writable, readable));
    this.sdk = this.connection.agent;
    await this.sdk.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
    await this.sdk.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  }

  prompt(words) {
    return this.sdk.request(methods.agent.session.prompt, { sessionId, prompt: text(words) });
  }

  words(role) {
    return fold(this.agent.updates(sessionId)).text(role);
  }
}

/** The same in version 2. */
class Second {
  agent = new Agent(binary);

  async open() {
    const { readable, writable } = this.agent.streams();
    this.connection = v2.client({ name: "ts-2" })
      .onRequest(v2.methods.client.session.requestPermission, ({ params }) => allow("session/request_permission", params))
      .onNotification(v2.methods.client.session.update, () => {})
      .connect(v2.ndJsonStream(writable, readable));
    this.sdk = this.connection.agent;
    await this.sdk.request(v2.methods.agent.initialize, {
      protocolVersion: v2.PROTOCOL_VERSION, info: { name: "ts-2", version: "1" }, capabilities: {},
    });
    await this.sdk.request(v2.methods.agent.session.resume, {
      sessionId, cwd, mcpServers: [], replayFrom: { type: "start" },
    });
  }

  async prompt(words) {
    const before = this.agent.received.length;
    await this.sdk.request(v2.methods.agent.session.prompt, { sessionId, prompt: text(words) });
    const ended = ({ params }) => params?.update?.sessionUpdate === "state_update" && params.update.state === "idle";
    return (await this.agent.until(`the end of ${words}`, ended, before)).params.update;
  }

  words(role) {
    return fold2(this.agent.updates(sessionId)).text(role);
  }
}

/** The client of the Python SDK. */
class Third {
  #lines;

  async open() {
    const child = spawn(python, ["-B", attached, sessionId, ...command(binary)], { stdio: ["pipe", "pipe", "inherit"] });
    this.child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    assert.equal(await this.#line(), "loaded");
  }

  async #line() {
    const { value } = await within(30, "a line of the Python SDK's client", this.#lines.next());
    return value;
  }

  async ask(line) {
    this.child.stdin.write(`${line}\n`);
    return this.#line();
  }

  async end() {
    this.child.stdin.end();
    return JSON.parse(await this.#line());
  }
}

let sessionId;
const prompts = [];
const [first, second, third] = [new First(), new Second(), new Third()];

/** All clients have been sent this prompt, but for the one who sent it: in version 1 that shows it itself. */
async function allSee(words, sender) {
  prompts.push({ words, sender });
  for (const one of [first, second].filter((one) => one !== sender)) {
    await one.agent.until(words, () => one.words("user").includes(words));
  }
  if (third !== sender) assert.equal(await third.ask(`user ${words}`), "seen");
}

/** All prompts that a client was sent. */
function sent(client) {
  return prompts.filter(({ sender }) => sender === undefined || sender !== client).map(({ words }) => words).join("");
}

await step("acpx has a session, and three clients of SDKs load it", async () => {
  await acpx("sessions", "new");
  await acpx("apples for all");
  const { 0: name, length } = readdirSync(`${process.env.REJOIN_STORE}/sessions`).filter((file) => file.endsWith(".jsonl"));
  assert.equal(length, 1);
  sessionId = name.replace(/\.jsonl$/, "");
  await Promise.all([first.open(), second.open(), third.open()]);
  await allSee("apples for all");
});

await step("each of them prompts, and all see it", async () => {
  assert.equal((await first.prompt("pears of version 1")).stopReason, "end_turn");
  await allSee("pears of version 1", first);
  assert.equal((await second.prompt("plums of version 2")).stopReason, "end_turn");
  await allSee("plums of version 2");
  assert.equal(await third.ask("prompt figs of python"), "end_turn");
  await allSee("figs of python", third);
  assert.match(await acpx("/recall 2"), /plums of version 2/);
  await allSee("/recall 2");
});

await step("the process that has the session is killed in mid-answer, and the others go on", async () => {
  const clients = [first.agent.child, second.agent.child, third.child].map(({ pid }) => pid);
  const others = children().filter(({ pid, parent }) => !clients.includes(pid) && !clients.includes(parent));
  const owners = others.filter(({ program }) => program === realpathSync(binary));
  assert.equal(owners.length, 1, JSON.stringify(others));
  const slow = acpx("/slow 30").catch(() => {});
  await allSee("/slow 30");
  for (const { pid } of others) process.kill(pid, "SIGKILL");
  await slow;
  assert.equal((await first.prompt("dates after the kill")).stopReason, "end_turn");
  await allSee("dates after the kill", first);
  assert.equal((await second.prompt("/recall 1")).stopReason, "end_turn");
  await allSee("/recall 1");
});

await step("all have seen the same, and so does who comes later", async () => {
  const later = new First();
  await later.open();
  const seen = await third.end();
  assert.equal(seen.agent, later.words("agent"), "the answers in Python");
  assert.equal(seen.user, sent(third), "the prompts in Python");
  for (const one of [first, second]) {
    assert.equal(one.words("agent"), later.words("agent"), `the answers, ${one.constructor.name}`);
    assert.equal(one.words("user"), sent(one), `the prompts, ${one.constructor.name}`);
  }
  assert.equal(later.words("user"), sent(later));
  for (const { agent } of [first, second, later]) await agent.end();
});

finish();
