// acpx: its queue owner and rejoin are killed, and the next prompt finds the conversation again.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFileSync, readdirSync, realpathSync } from "node:fs";
import { children, run } from "./support/acpx.mjs";
import { finish, step } from "./support/checks.mjs";
import { wrapped } from "./support/command.mjs";

const binary = process.argv[2];
const acpx = (...args) => run(binary, ...args);

/** Kills acpx's queue owner and rejoin as a crash does, and waits until they are gone. */
async function crash() {
  const own = children();
  const agents = own.filter(({ program }) => program === realpathSync(binary));
  // Wrapped, there are both rejoins and the guard of the inner one.
  const wanted = wrapped ? 3 : 1;
  assert.equal(agents.length, wanted, `so many rejoins should run: ${wanted}, not ${JSON.stringify(own)}`);
  assert(own.some(({ program }) => program === realpathSync(process.execPath)), "no queue owner runs");
  await kill(own);
}

/** Kills these processes, and waits until all are gone. */
async function kill(own) {
  for (const { pid } of own) {
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      // It has just ended.
      assert.equal(error.code, "ESRCH");
    }
  }
  for (const deadline = Date.now() + 5000; children().length > 0;) {
    assert(Date.now() < deadline, "they do not die");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The ids that rejoin's store knows. */
function stored() {
  return readdirSync(`${process.env.REJOIN_STORE}/sessions`).filter((name) => name.endsWith(".jsonl"));
}

await step("a session and two prompts", async () => {
  await acpx("sessions", "new");
  assert.match(await acpx("remember the apples"), /apples/);
  await acpx("/mixed");
  assert.equal(stored().length, 1);
});

await step("after a crash the next prompt resumes it with its context", async () => {
  await crash();
  assert.match(await acpx("/recall 2"), /remember the apples/);
  assert.equal(stored().length, 1, "acpx fell back to a new session");
});

await step("after a crash in mid-answer too", async () => {
  const slow = acpx("/slow 30").catch(() => {});
  const log = `${process.env.REJOIN_STORE}/sessions/${stored()[0]}`;
  const begun = () => /\/slow 30.*agent_message_chunk/s.test(readFileSync(log, "utf8"));
  for (const deadline = Date.now() + 20_000; !begun();) {
    assert(Date.now() < deadline, "the slow answer does not begin");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await crash();
  await slow;
  assert.match(await acpx("/recall 1"), /\/slow 30/);
  assert.match(await acpx("/recall 5"), /remember the apples/);
  assert.equal(stored().length, 1, "acpx fell back to a new session");
});

/** The texts of the session's prompts, as its log has them. */
function prompts() {
  const log = readFileSync(`${process.env.REJOIN_STORE}/sessions/${stored()[0]}`, "utf8").trim().split("\n");
  // The end of a line may be missing where the process was killed.
  const records = log.flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });
  return records.filter(({ kind }) => kind === "prompt").map(({ payload }) => payload.prompt.at(-1).text);
}

await step("each prompt is in the conversation once, in its order, whatever was killed", async () => {
  assert.deepEqual(prompts(), ["remember the apples", "/mixed", "/recall 2", "/slow 30", "/recall 1", "/recall 5"]);
});

await step("after crashes at random instants too, in starts, replays and answers", async () => {
  const before = prompts();
  const sent = [];
  for (let round = 0; round < 6; round += 1) {
    const words = `remember number ${round}`;
    sent.push(words);
    const answered = acpx(words).then(() => true, () => false);
    // A prompt takes about as long, with the start of the queue owner and of rejoin.
    await new Promise((resolve) => setTimeout(resolve, randomInt(0, 3000)));
    await kill(children());
    if (await answered) assert(prompts().includes(words), `${words} was answered and is gone`);
  }
  const last = "remember the end";
  assert.match(await acpx(last), /the end/);
  const now = prompts();
  assert.deepEqual(now.slice(0, before.length), before, "a gap");
  const added = now.slice(before.length);
  assert.equal(new Set(added).size, added.length, `a double: ${added}`);
  const wanted = [...sent, last].filter((words) => added.includes(words));
  assert.deepEqual(added, wanted);
  assert.equal(stored().length, 1, "acpx fell back to a new session");
});

await step("its list shows the session as rejoin knows it", async () => {
  const listed = await acpx("--format", "json", "sessions", "list");
  const id = stored()[0].replace(/\.jsonl$/, "");
  assert(listed.includes(id), listed);
});

await step("a one-shot run is a session of its own", async () => {
  const events = (await acpx("--format", "json", "exec", "/tool")).trim().split("\n").map((line) => JSON.parse(line));
  assert(events.length > 1);
  assert(events.some((event) => JSON.stringify(event).includes("tool_call")));
  assert.equal(stored().length, 2);
});

finish();
