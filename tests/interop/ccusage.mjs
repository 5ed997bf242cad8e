// What rejoin counts of the files of Claude Code and Codex is what ccusage counts of them: tokens and cost
// of each day, with a fork whose turns are in both files, several models, and caches.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { finish, step } from "./support/checks.mjs";

if (process.arch !== "x64") {
  console.log("ok - skipped: the lock file names ccusage for x64 only");
  process.exit();
}
const binary = process.argv[2];
const { HOME: home } = process.env;
const ccusage = fileURLToPath(new URL("node_modules/.bin/ccusage", import.meta.url));
const id = (n) => `${String(n).repeat(8)}-0000-4000-8000-000000000000`;

function write(path, records) {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
}

/** A turn of Claude Code: a prompt and an answer, which a copy has with another `sessionId`. */
function claude(sessionId, parentUuid, n, day, model, [input, output, read, written]) {
  const at = (second) => `2026-11-${day}T10:${10 + n}:${second}.000Z`;
  const about = { sessionId, cwd: "/srv/app", version: "2.1.0", isSidechain: false };
  const usage = {
    input_tokens: input, output_tokens: output, cache_read_input_tokens: read, cache_creation_input_tokens: written,
  };
  const content = [{ type: "text", text: "Done." }];
  return [
    { type: "user", uuid: `u${day}-${n}`, parentUuid, ...about, timestamp: at(10), message: { role: "user", content: `Do ${n}.` } },
    { type: "assistant", uuid: `a${day}-${n}`, parentUuid: `u${day}-${n}`, ...about, timestamp: at(20), requestId: `req_${day}_${n}`,
      message: { id: `msg_${day}_${n}`, type: "message", role: "assistant", model, content, usage } },
  ];
}

/** A turn of Codex, with the sum of all tokens up to its end. */
function codex(n, model, sum, last) {
  const at = (second) => `2026-11-22T10:${10 + n}:${second}.000Z`;
  const tokens = ([input, cached, output, thought]) => ({
    input_tokens: input, cached_input_tokens: cached, output_tokens: output, reasoning_output_tokens: thought, total_tokens: input + output,
  });
  const event = (second, payload) => ({ timestamp: at(second), type: "event_msg", payload });
  return [
    { timestamp: at(10), type: "turn_context", payload: { turn_id: `t${n}`, cwd: "/srv/app", model } },
    event(11, { type: "user_message", message: `Do ${n}.` }),
    event(20, { type: "agent_message", message: "Done." }),
    event(21, { type: "token_count", info: { total_token_usage: tokens(sum), last_token_usage: tokens(last), model_context_window: 272_000 } }),
  ];
}

await step("conversations of Claude Code and Codex are written", () => {
  const shared = [0, 1, 2, 3].map((n) => [n, 20, "claude-sonnet-4-5-20250929", [100 + n, 50 * n + 7, 1000 * n, 300]]);
  const turns = (session, all) => all.reduce(
    (records, turn) => [...records, ...claude(session, records.at(-1)?.uuid ?? null, ...turn)], []);
  const more = [[4, 20, "claude-haiku-4-5", [10, 2000, 40_000, 0]]];
  const forked = [[4, 21, "claude-opus-4-5", [1000, 500, 10_000, 2000]], [5, 21, "claude-opus-4-5", [3, 4, 5, 6]]];
  write(`.claude/projects/-srv-app/${id(1)}.jsonl`, turns(id(1), [...shared, ...more]));
  write(`.claude/projects/-srv-app/${id(2)}.jsonl`, turns(id(2), [...shared, ...forked]));
  const meta = { timestamp: "2026-11-22T10:00:00.000Z", type: "session_meta", payload: { id: id(3), cwd: "/srv/app", cli_version: "0.160.0", originator: "codex_cli_rs", source: "cli" } };
  write(`.codex/sessions/2026/11/22/rollout-2026-11-22T10-00-00-${id(3)}.jsonl`, [
    meta,
    ...codex(0, "gpt-5-codex", [1000, 0, 300, 100], [1000, 0, 300, 100]),
    ...codex(1, "gpt-5-codex", [9000, 6000, 500, 150], [8000, 6000, 200, 50]),
  ]);
});

await step("tokens and cost of each day are the same", () => {
  const env = { ...process.env, TZ: "UTC" };
  const run = (command, ...options) => JSON.parse(execFileSync(command, options, { env }));
  const theirs = run(ccusage, "daily", "--json", "--offline").daily.map((day) => [
    day.period, day.totalTokens, day.totalCost.toFixed(6),
  ]);
  const { days } = run(binary, "stats", "--json", "--sources", "claude-code,codex");
  const ours = days.map(({ name, tokens, cost, computedCost }) => {
    assert.deepEqual(cost, []);
    return [name, tokens.totalTokens, computedCost.amount.toFixed(6)];
  });
  assert.equal(ours.length, 3);
  assert.deepEqual(ours, theirs);
});

finish();
