// Finds the processes that one run has started, however far they went, and kills them.

import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

/**
 * The processes whose environment has this marker (`NAME=value`), with all their descendants, but
 * for this one; `first` stands in front.
 */
function started(marker, first) {
  const parents = new Map();
  const found = new Set();
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const pid = Number(entry);
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (state === "Z" || state === "X") continue;
      parents.set(pid, Number(parent));
      if (readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(marker)) found.add(pid);
    } catch {
      // It ended while we looked, or is not ours to look at.
    }
  }
  for (let grown = -1; grown !== found.size;) {
    grown = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  }
  found.delete(process.pid);
  const others = [...found].filter((pid) => pid !== first);
  return found.has(first) ? [first, ...others] : others;
}

/** Kills all of them as a crash does, `first` before the others, and waits until they are gone. */
export async function killAll(marker, first) {
  for (const deadline = Date.now() + 20_000; ;) {
    const pids = started(marker, first);
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It was faster.
      }
    }
    if (Date.now() > deadline) throw new Error(`these do not die: ${pids.join(" ")}`);
    await pause(10);
  }
}
