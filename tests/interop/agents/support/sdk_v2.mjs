// The TypeScript SDK's client of version 2, whose lines are written down on their way.

import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk/experimental/v2";
import { within } from "../../support/checks.mjs";
import { relayed } from "./passed.mjs";

const PATIENCE = 150;

export class Client {
  /** The parameters of the updates, in the order in which they came. */
  updates = [];
  /** The parameters of the requests for permission. */
  asked = [];
  /** Whether requests for permission are answered. */
  permits = true;
  #waiters = new Set();

  constructor(command, { cwd, env, record }) {
    const [program, ...args] = relayed(record, command);
    this.child = spawn(program, args, { cwd, env, stdio: ["pipe", "pipe", "pipe"] });
    this.child.stderr.pipe(createWriteStream(`${record}.stderr`));
    this.child.stdin.on("error", () => {});
    this.exited = new Promise((resolve) => this.child.on("close", resolve));
    const stream = ndJsonStream(Writable.toWeb(this.child.stdin), Readable.toWeb(this.child.stdout));
    this.connection = client({ name: "rejoin-interop" })
      .onRequest(methods.client.session.requestPermission, ({ params }) => this.#permission(params))
      .onNotification(methods.client.session.update, ({ params }) => this.#updated(params))
      .connect(stream);
    this.agent = this.connection.agent;
  }

  initialize() {
    const info = { name: "rejoin-interop", version: "1" };
    return this.agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, info, capabilities: {} });
  }

  request(method, params) {
    return within(PATIENCE, method, this.agent.request(method, params));
  }

  /** Sends a prompt, and waits until the session is idle. */
  async prompt(sessionId, text) {
    const from = this.updates.length;
    await this.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
    await this.until(`the end of ${text}`, ({ sessionId: of, update }) =>
      of === sessionId && update.sessionUpdate === "state_update" && update.state === "idle", from);
  }

  /** Waits for an update; those from the one numbered `from` on count. */
  until(what, wanted, from = 0) {
    const found = this.updates.slice(from).find(wanted);
    if (found) return Promise.resolve(found);
    const waiter = { wanted };
    this.#waiters.add(waiter);
    const arrival = new Promise((resolve) => (waiter.resolve = resolve));
    return within(PATIENCE, what, arrival).finally(() => this.#waiters.delete(waiter));
  }

  async end() {
    this.child.stdin.end();
    return within(PATIENCE, "the agent's end after its input's", this.exited);
  }

  #updated(params) {
    this.updates.push(params);
    for (const waiter of this.#waiters) if (waiter.wanted(params)) waiter.resolve(params);
  }

  #permission(params) {
    this.asked.push(params);
    if (!this.permits) return new Promise(() => {});
    const once = params.options.find(({ kind }) => kind === "allow_once") ?? params.options[0];
    return { outcome: { outcome: "selected", optionId: once.optionId } };
  }
}
