// Starts rejoin, writes down both directions of its pipes and speaks to it line by line.

import { spawn } from "node:child_process";
import { appendFileSync, readFileSync, readdirSync } from "node:fs";
import { within } from "./checks.mjs";
import { command, wrapped } from "./command.mjs";
import { Validator } from "./schema.mjs";

const NEWLINE = 10;

export class Agent {
  /** The agent's messages in the order in which they came. */
  received = [];
  /** What breaks the protocol's rules; `end` throws it. */
  problems = [];
  /** Answers the agent's requests: (method, params) => result. */
  onRequest = () => undefined;
  #validator = new Validator();
  #waiters = new Set();
  #rest = Buffer.alloc(0);
  #nextId = 1;
  #raw = () => {};
  #record;

  /** `record` names a file that gets every line, with the side that sent it. */
  constructor(binary, { args = ["serve"], env = {}, record } = {}) {
    this.#record = record;
    const [program, ...rest] = command(binary, args);
    this.child = spawn(program, rest, {
      env: { ...process.env, ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.exited = new Promise((resolve, reject) => {
      this.child.on("error", reject);
      this.child.on("close", (code, signal) => resolve(signal ?? code));
    });
    // A killed agent is read to its end; writing to it fails, and shall.
    this.child.stdin.on("error", () => {});
    this.child.stdout.on("data", (bytes) => this.#bytes(bytes));
  }

  /** Both pipes as the streams that the SDK is given. */
  streams() {
    let open = true;
    const readable = new ReadableStream({
      start: (controller) => {
        this.#raw = (bytes) => open && controller.enqueue(new Uint8Array(bytes));
        this.child.stdout.on("close", () => open && controller.close());
      },
      cancel: () => {
        open = false;
      },
    });
    let partial = "";
    const decoder = new TextDecoder();
    const writable = new WritableStream({
      write: (bytes) => {
        const lines = (partial + decoder.decode(bytes, { stream: true })).split("\n");
        partial = lines.pop();
        for (const line of lines) this.raw(line);
      },
    });
    return { readable, writable };
  }

  /** Sends a line as it stands. */
  raw(line) {
    this.#validator.fromClient(line);
    this.#write("client", line);
    this.child.stdin.write(`${line}\n`);
  }

  send(message) {
    this.raw(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  notify(method, params) {
    this.send({ method, params });
  }

  /** Sends a request without waiting; returns its id. */
  ask(method, params, id = this.#nextId++) {
    this.send({ id, method, params });
    return id;
  }

  /** The response to a request that was asked. */
  answer(id) {
    return this.until(`the answer to ${JSON.stringify(id)}`, (message) =>
      message.method === undefined && message.id === id);
  }

  /** Sends a request and returns the whole response. */
  async call(method, params, id) {
    return this.answer(this.ask(method, params, id));
  }

  /** Sends a request and returns its result; an error throws. */
  async request(method, params) {
    const { result, error } = await this.call(method, params);
    if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }

  /** Waits for a message; those that came before count too, from the one numbered `from` on. */
  until(what, wanted, from = 0) {
    const found = this.received.slice(from).find(wanted);
    if (found) return Promise.resolve(found);
    const waiter = { wanted };
    this.#waiters.add(waiter);
    const arrival = new Promise((resolve, reject) => {
      waiter.resolve = resolve;
      this.exited.then((how) => reject(new Error(`the agent ended (${how}) before ${what}`)), reject);
    });
    return within(20, what, arrival).finally(() => this.#waiters.delete(waiter));
  }

  /** The updates of a session among `messages`. */
  updates(sessionId, messages = this.received) {
    const mine = (m) => m.method === "session/update" && m.params.sessionId === sessionId;
    return messages.filter(mine).map((message) => message.params.update);
  }

  /** Initializes as a client that offers nothing. */
  initialize(clientCapabilities = {}) {
    const clientInfo = { name: "rejoin-interop", version: "1" };
    return this.request("initialize", { protocolVersion: 1, clientCapabilities, clientInfo });
  }

  newSession(params = {}) {
    const cwd = process.cwd();
    return this.request("session/new", { cwd, mcpServers: [], ...params });
  }

  prompt(sessionId, text) {
    return this.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  }

  /** Ends the agent as a crash does, with the agent that it is wrapped around. */
  async kill() {
    const { pid } = this.child;
    const children = wrapped ? childrenOf(pid) : [];
    this.child.kill("SIGKILL");
    for (const child of children) process.kill(child, "SIGKILL");
    await within(5, "the killed agent's end", this.exited);
  }

  /** Closes the agent's input and waits for its end; throws what broke the protocol's rules. */
  async end() {
    this.child.stdin.end();
    const how = await within(5, "the agent's end after its input's", this.exited);
    if (this.#rest.length > 0) this.problems.push(new Error("the last line has no newline"));
    if (this.problems.length > 0) throw this.problems[0];
    if (how !== 0) throw new Error(`the agent ended with ${how}`);
    const { unanswered } = this.#validator;
    if (unanswered.length > 0) throw new Error(`never answered: ${unanswered.join(", ")}`);
  }

  #bytes(bytes) {
    this.#raw(bytes);
    let buffer = Buffer.concat([this.#rest, bytes]);
    for (let end = buffer.indexOf(NEWLINE); end >= 0; end = buffer.indexOf(NEWLINE)) {
      this.#line(buffer.subarray(0, end));
      buffer = buffer.subarray(end + 1);
    }
    this.#rest = buffer;
  }

  #line(bytes) {
    this.#write("agent", bytes.toString());
    let message;
    try {
      message = this.#validator.fromAgent(bytes);
    } catch (error) {
      this.problems.push(error);
      try {
        message = JSON.parse(bytes.toString());
      } catch {
        return;
      }
    }
    this.received.push(message);
    if (message.method !== undefined && message.id !== undefined) this.#serve(message);
    for (const waiter of this.#waiters) {
      if (waiter.wanted(message)) waiter.resolve(message);
    }
  }

  #serve({ id, method, params }) {
    const result = this.onRequest(method, params);
    if (result !== undefined) this.send({ id, result });
  }

  #write(from, line) {
    if (this.#record) appendFileSync(this.#record, `${from} ${line}\n`);
  }
}

/** The processes that a process has started, by whichever of its threads. */
function childrenOf(pid) {
  const threads = readdirSync(`/proc/${pid}/task`);
  const lists = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8"));
  return lists.join(" ").split(" ").filter(Boolean).map(Number);
}

/** Agrees to whatever is asked, as a person who is in a hurry does. */
export function allow(method, params) {
  if (method !== "session/request_permission") return undefined;
  const option = params.options.find(({ kind }) => kind.startsWith("allow")) ?? params.options[0];
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}
