// One conversation through several lives of an agent, and all that its client saw of it.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { isHistory } from "./history.mjs";
import { killAll } from "./processes.mjs";
import { Peer } from "./peer.mjs";

/** What the client offers; most of what an editor does. */
const capabilities = (readTextFile) => ({
  fs: { readTextFile, writeTextFile: true },
  terminal: true,
  _meta: { terminal_output: true },
});

export class Session {
  /** { prompt, updates, stop, permissions } of each turn so far. */
  turns = [];
  /** Milliseconds of what takes long, by name. */
  took = {};
  /** How often the agent was started. */
  lives = 0;
  #marks = [];

  constructor({ command, authenticate, reads, cwd, env, marker, folder }) {
    Object.assign(this, { command, authenticate, reads, cwd, env, marker, folder });
  }

  /** Starts the agent; `options` go to rejoin, if there is one. */
  async start(options = []) {
    // Gemini CLI knows a session only when the minute in which it was made is over.
    if (this.lives > 0 && process.env.LATER) await pause(61_000);
    this.lives += 1;
    const command = typeof this.command === "function" ? this.command(options, this.lives) : this.command;
    const { cwd, env, folder } = this;
    this.peer = new Peer(command, { cwd, env, record: `${folder}/life-${this.lives}.lines` });
    this.hello = await this.#timed("initialize", () => this.peer.request("initialize", {
      protocolVersion: 1,
      clientCapabilities: capabilities(this.reads ?? true),
      clientInfo: { name: "rejoin-interop", version: "1" },
    }));
    if (this.authenticate) await this.peer.request("authenticate", { methodId: this.authenticate });
  }

  async new() {
    const { sessionId } = await this.#timed("new", () =>
      this.peer.request("session/new", { cwd: this.cwd, mcpServers: [] }));
    this.id = sessionId;
    return sessionId;
  }

  /** Loads the session; returns the texts of the updates that came before the response. */
  async load() {
    const { cwd, id: sessionId } = this;
    const from = this.peer.lines.length;
    await this.#timed("load", () => this.peer.request("session/load", { sessionId, cwd, mcpServers: [] }));
    return this.peer.updates(sessionId, from);
  }

  /** The same, without what rejoin did not replay: how things are with the agent just now. */
  async replay() {
    const from = this.peer.lines.length;
    const updates = await this.load();
    const lines = this.peer.lines.slice(from).filter(({ message }) => message.method === "session/update");
    const isReplayed = updates.map((_, at) => lines[at].message.params._meta?.rejoin !== undefined);
    assert.deepEqual(updates.filter((update, at) => !isReplayed[at] && isHistory(update)), []);
    return updates.filter((_, at) => isReplayed[at]);
  }

  /** A whole turn. */
  async prompt(words, ...blocks) {
    const { id } = this.#begin(words, blocks);
    return this.#timed(words, () => this.#end(id));
  }

  /** A turn that is cancelled when the answer has come as far as `until`. */
  async cancel(words, until) {
    const { id, from } = this.#begin(words, []);
    await this.peer.until(`${until} of ${words}`, ({ raw }) => raw.includes(until), from);
    this.peer.notify("session/cancel", { sessionId: this.id });
    return this.#timed(`${words} cancelled`, () => this.#end(id));
  }

  /** A turn in which everything is killed when a line has `until` in it; permission is withheld. */
  async kill(words, until) {
    this.peer.permits = false;
    const { from } = this.#begin(words, []);
    await this.peer.until(`${until} of ${words}`, ({ raw }) => raw.includes(until), from);
    await killAll(this.marker, this.peer.child.pid);
    await this.peer.exited;
    this.#cut();
  }

  /** Ends the agent by the end of its input; returns how it ended. */
  async end() {
    const how = await this.#timed("end", () => this.peer.end());
    this.#cut();
    await killAll(this.marker);
    return how;
  }

  #begin(words, blocks) {
    this.#cut();
    const prompt = [{ type: "text", text: `Please do ${words} now.` }, ...blocks];
    const from = this.peer.lines.length;
    this.turns.push({ words, prompt, updates: [] });
    this.#marks.push(from);
    return { id: this.peer.ask("session/prompt", { sessionId: this.id, prompt }), from };
  }

  async #end(id) {
    const { stopReason } = await this.peer.answer(id, this.turns.at(-1).words);
    this.turns.at(-1).stop = stopReason;
    return stopReason;
  }

  /** What came since the last turn began belongs to it, also what came behind its response. */
  #cut() {
    const from = this.#marks.pop();
    if (from !== undefined) this.turns.at(-1).updates = this.peer.updates(this.id, from);
  }

  async #timed(what, work) {
    const start = performance.now();
    const result = await work();
    this.took[`${what} (${this.lives})`] = Math.round(performance.now() - start);
    return result;
  }
}
