// Stands between an agent and who drives it, and writes down each line: node relay.mjs RECORD COMMAND...
//
// A line is in the record before it is passed on, so what a client has seen is there even if
// everything is killed.

import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";

const [record, command, ...args] = process.argv.slice(2);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });

/** Passes on whole lines, each recorded as sent by `from`. */
function relay(from, input, output) {
  let rest = Buffer.alloc(0);
  input.on("data", (bytes) => {
    const buffer = Buffer.concat([rest, bytes]);
    const end = buffer.lastIndexOf("\n") + 1;
    rest = buffer.subarray(end);
    if (end === 0) return;
    const lines = buffer.subarray(0, end);
    appendFileSync(record, lines.toString().replace(/^(?=.)/gm, `${from} `));
    output.write(lines);
  });
  input.on("end", () => output.end(rest));
  // Who is gone needs nothing more.
  output.on("error", () => {});
}

relay("client", process.stdin, agent.stdin);
relay("agent", agent.stdout, process.stdout);
agent.on("error", (error) => {
  process.stderr.write(`${error}\n`);
  process.exit(127);
});
agent.on("close", (code) => process.exit(code ?? 1));
process.on("SIGTERM", () => agent.kill("SIGTERM"));
