// A client that keeps every line of an agent as it came.

import { spawn } from "node:child_process";
import { appendFileSync, createWriteStream, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { within } from "../../support/checks.mjs";
import { member } from "./raw.mjs";
import { Terminals } from "./terminals.mjs";

const NEWLINE = 10;
const PERMISSION = "session/request_permission";
const METHOD_NOT_FOUND = -32601;
const RESOURCE_NOT_FOUND = -32002;
/** How long anything may take. An agent's first start on a busy machine takes most of a minute. */
const PATIENCE = 150;

export class Peer {
  /** Each line as { raw, message }, in the order in which they came. */
  lines = [];
  /** Whether requests for permission are answered, with the first that allows once. */
  permits = true;
  #terminals = new Terminals();
  #waiters = new Set();
  #rest = Buffer.alloc(0);
  #nextId = 1;
  #record;

  /** `record` names a file that gets every line of both sides; beside it lies what goes to stderr. */
  constructor([command, ...args], { cwd, env, record }) {
    this.#record = record;
    this.child = spawn(command, args, { cwd, env, stdio: ["pipe", "pipe", "pipe"] });
    this.child.stderr.pipe(createWriteStream(`${record}.stderr`));
    this.exited = new Promise((resolve, reject) => {
      this.child.on("error", reject);
      this.child.on("close", (code, signal) => resolve(signal ?? code));
    });
    this.exited.catch(() => {});
    this.child.stdin.on("error", () => {});
    this.child.stdout.on("data", (bytes) => this.#bytes(bytes));
  }

  #send(message) {
    const line = JSON.stringify({ jsonrpc: "2.0", ...message });
    appendFileSync(this.#record, `client ${line}\n`);
    this.child.stdin.write(`${line}\n`);
  }

  notify(method, params) {
    this.#send({ method, params });
  }

  /** Sends a request without waiting; returns its id. */
  ask(method, params) {
    const id = this.#nextId++;
    this.#send({ id, method, params });
    return id;
  }

  /** The result of a request that was asked; an error throws. */
  async answer(id, method = `request ${id}`) {
    const { message } = await this.until(`the answer to ${method}`, ({ message }) =>
      message.method === undefined && message.id === id);
    if (message.error) throw new Error(`${method}: ${JSON.stringify(message.error)}`);
    return message.result;
  }

  request(method, params) {
    return this.answer(this.ask(method, params), method);
  }

  /** Waits for a line; those that came before count too, from the one numbered `from` on. */
  until(what, wanted, from = 0) {
    const found = this.lines.slice(from).find(wanted);
    if (found) return Promise.resolve(found);
    const waiter = { wanted };
    this.#waiters.add(waiter);
    const arrival = new Promise((resolve, reject) => {
      waiter.resolve = resolve;
      this.exited.then((how) => reject(new Error(`the agent ended (${how}) before ${what}`)), reject);
    });
    return within(PATIENCE, what, arrival).finally(() => this.#waiters.delete(waiter));
  }

  /**
   * The texts of a session's updates among the lines from the one numbered `from` on. Some agents
   * make a tool call known by asking for permission only: that counts as the call then.
   */
  updates(sessionId, from = 0) {
    const known = new Set();
    return this.lines.flatMap(({ raw, message: { method, params } }, at) => {
      if (params?.sessionId !== sessionId) return [];
      const call = { "session/update": params.update, [PERMISSION]: params.toolCall }[method];
      const isNew = !known.has(call?.toolCallId);
      if (call?.toolCallId) known.add(call.toolCallId);
      if (at < from) return [];
      if (method === "session/update") return [member(raw, "params", "update")];
      if (method !== PERMISSION || !isNew) return [];
      return [`{"sessionUpdate":"tool_call",${member(raw, "params", "toolCall").slice(1)}`];
    });
  }

  /** Closes the agent's input and waits for its end. */
  async end() {
    this.child.stdin.end();
    return within(PATIENCE, "the agent's end after its input's", this.exited);
  }

  #bytes(bytes) {
    let buffer = Buffer.concat([this.#rest, bytes]);
    for (let end = buffer.indexOf(NEWLINE); end >= 0; end = buffer.indexOf(NEWLINE)) {
      this.#line(buffer.subarray(0, end).toString());
      buffer = buffer.subarray(end + 1);
    }
    this.#rest = buffer;
  }

  #line(raw) {
    appendFileSync(this.#record, `agent ${raw}\n`);
    let message;
    try {
      message = JSON.parse(raw);
    } catch {
      message = {};
    }
    const line = { raw, message };
    this.lines.push(line);
    if (message.method !== undefined && message.id !== undefined) this.#serve(message);
    for (const waiter of this.#waiters) if (waiter.wanted(line)) waiter.resolve(line);
  }

  async #serve({ id, method, params }) {
    if (method === PERMISSION && !this.permits) return;
    try {
      const terminal = method.startsWith("terminal/");
      const result = terminal ? await this.#terminals.serve(method, params) : serve(method, params);
      this.#send({ id, result });
    } catch (error) {
      const code = error.code === "ENOENT" ? RESOURCE_NOT_FOUND : METHOD_NOT_FOUND;
      this.#send({ id, error: { code, message: String(error.message) } });
    }
  }
}

/** Agrees to whatever is asked, and has the files of this machine. */
function serve(method, params) {
  switch (method) {
    case PERMISSION: {
      const clears = ({ optionId }) => optionId.startsWith("exit-plan-clear-");
      const once = params.options.find(clears)
        ?? params.options.find(({ kind }) => kind === "allow_once") ?? params.options[0];
      return { outcome: { outcome: "selected", optionId: once.optionId } };
    }
    case "fs/read_text_file":
      return { content: readFileSync(params.path, "utf8") };
    case "fs/write_text_file":
      mkdirSync(dirname(params.path), { recursive: true });
      writeFileSync(params.path, params.content);
      return {};
    default:
      throw new Error(`no method ${method}`);
  }
}
