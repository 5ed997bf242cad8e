// The terminals that a client runs for its agent.

import { spawn } from "node:child_process";

export class Terminals {
  #running = new Map();

  /** Answers one of the terminal methods. */
  async serve(method, params) {
    if (method === "terminal/create") return this.#create(params);
    const terminal = this.#running.get(params.terminalId);
    if (!terminal) throw new Error(`no terminal ${params.terminalId}`);
    switch (method) {
      case "terminal/output":
        return { output: terminal.output, truncated: false, exitStatus: terminal.exit ?? null };
      case "terminal/wait_for_exit":
        return terminal.ended;
      case "terminal/kill":
        terminal.child.kill("SIGKILL");
        return {};
      case "terminal/release":
        terminal.child.kill("SIGKILL");
        this.#running.delete(params.terminalId);
        return {};
      default:
        throw new Error(`no method ${method}`);
    }
  }

  #create({ command, args = [], env = [], cwd }) {
    const extra = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]));
    // Some agents send a whole line of the shell as the command.
    const shell = args.length === 0;
    const child = spawn(command, args, { cwd: cwd ?? undefined, shell, env: { ...process.env, ...extra } });
    const terminal = { child, output: "" };
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes) => (terminal.output += bytes.toString()));
    }
    terminal.ended = new Promise((resolve) => {
      const end = (exitCode, signal) => {
        terminal.exit = { exitCode, signal };
        resolve(terminal.exit);
      };
      child.on("error", () => end(127, null));
      child.on("close", end);
    });
    const terminalId = `term-${this.#running.size + 1}`;
    this.#running.set(terminalId, terminal);
    return { terminalId };
  }
}
