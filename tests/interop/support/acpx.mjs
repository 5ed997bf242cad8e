// Runs acpx with rejoin as its agent.

import { execFile } from "node:child_process";
import { readFileSync, readdirSync, readlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { command } from "./command.mjs";

const cli = fileURLToPath(new URL("dist/cli.js", import.meta.resolve("acpx/package.json")));
const marker = `INTEROP_DIR=${process.env.INTEROP_DIR}`;

/** Runs acpx with this rejoin; returns what it prints. */
export async function run(binary, ...args) {
  const all = [cli, "--agent", command(binary).join(" "), "--approve-all", ...args];
  const options = { timeout: 60_000, maxBuffer: 1 << 26 };
  const { stdout } = await promisify(execFile)(process.execPath, all, options);
  return stdout;
}

/** The processes that this test started, other than itself, with what they run and who started them. */
export function children() {
  const found = [];
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const pid = Number(name);
    try {
      const mine = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(marker);
      if (mine && pid !== process.pid && pid !== process.ppid) {
        const parent = Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
        found.push({ pid, parent, program: readlinkSync(`/proc/${pid}/exe`) });
      }
    } catch {
      // It ended while we looked, or is not ours to look at.
    }
  }
  return found;
}
