// What rejoin reads of what the newest version of a tool writes: node drift.mjs SOURCE BINARY REPORT
//
// The tool has a conversation without rejoin, as far as its client can make it: text, thoughts, tools,
// a picture, a subagent, a compaction, a fork. Then its files are imported, and what was read is compared
// with what the tool's own client saw, and with the tool's own list. REPORT gets the result as JSON;
// the exit code is 1 if something was seen that is not read, or is of an unknown kind.

import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { PIXEL } from "../agents/support/pixel.mjs";
import { Session } from "../agents/support/session.mjs";
import { stage } from "../agents/support/stage.mjs";
import { check, finish, step } from "../support/checks.mjs";
import { TOOLS, installed } from "./tools.mjs";

/** What an agent says to its client and keeps nowhere: about the model that it does not know. */
const NOT_KEPT = /Warning: Model metadata for `fake-model` not found[^\n]*\n\n/g;
const [source, binary, report] = process.argv.slice(2);
const tool = TOOLS[source];
const { agent, cwd, env, folder, marker, model, strike } = await stage(source, tool.agent);
Object.assign(env, agent.variables?.(model.url));
const session = new Session({ ...agent, cwd, env, marker, folder });

/**
 * Whether each kind of thing was read: `yes`, `no: WHY`, `none` if the tool's client saw none of it, or
 * `not kept` if it is not in the tool's files.
 */
const read = {};
const judge = (name, had, ok, why = "") => {
  read[name] = !had ? "none" : ok ? "yes" : `no${why && `: ${why}`}`;
};

/** Everything of updates, as objects, that is compared. */
function contents(updates) {
  const text = {};
  const calls = new Map();
  let pictures = 0;
  for (const { sessionUpdate: kind, content, ...update } of updates) {
    if (/^(user|agent)_(message|thought)_chunk$/.test(kind)) {
      text[kind] = (text[kind] ?? "") + (content.text ?? "");
      if (kind === "user_message_chunk" && content.type === "image") pictures += 1;
    } else if (/^tool_call(_update)?$/.test(kind)) {
      const { kind: what, status } = { ...calls.get(update.toolCallId), ...update };
      calls.set(update.toolCallId, { kind: what, status });
    }
  }
  // Other kinds are for each to choose, and what is a plan for one is a call for another.
  const ours = [...calls.values()].filter(({ kind }) => kind !== "other" && kind !== "think");
  const said = (text.agent_message_chunk ?? "").replace(NOT_KEPT, "");
  const thought = text.agent_thought_chunk ?? "";
  return { said, thought, asked: text.user_message_chunk ?? "", calls: ours, pictures };
}

/** Whether this text is in a file of the tool's. */
function isKept(text) {
  const files = readdirSync(`${folder}/home`, { recursive: true, withFileTypes: true });
  return files.some((file) => file.isFile() && readFileSync(join(file.parentPath, file.name)).includes(text));
}

const run = (...options) => JSON.parse(execFileSync(binary, options, { env, maxBuffer: 1e9 }));
const prompts = [];
let live, fork, listed, hasSubagent, isCompacted, imported;

/** A turn that the tool may not be able to have. */
async function attempt(words, ...blocks) {
  try {
    const stop = await session.prompt(words, ...blocks);
    if (stop === "end_turn") prompts.push(words);
    return stop === "end_turn";
  } catch (error) {
    console.log(`# ${words}: ${error.message}`);
    return false;
  }
}

await step("the tool has a conversation", async () => {
  await session.start();
  const sessionId = await session.new();
  if (agent.mode) await session.peer.request("session/set_mode", { sessionId, modeId: agent.mode });
  for (const words of ["PLAIN-1", "THINK-2", "TOOL-3", "RUN-4", "LIST-5"]) {
    if (!(await attempt(words))) throw new Error(`${words} did not end`);
  }
  await attempt("IMAGE-6", PIXEL);
  // Some clients show the words of a subagent among the agent's.
  live = contents(session.peer.updates(session.id).map((text) => JSON.parse(text)));
  await attempt("SPAWN-7");
  hasSubagent = model.turns.some(({ name }) => name === "PLAIN-SPAWN7");
});

await step("it compacts and forks it if it can, and lists it", async () => {
  const { peer, id: sessionId, hello } = session;
  const before = model.others.length + model.turns.length;
  const compact = { sessionId, prompt: [{ type: "text", text: "/compact" }] };
  isCompacted = await peer.request("session/prompt", compact).then(
    () => model.others.length + model.turns.length > before,
    () => false,
  );
  await attempt("PLAIN-8");
  const { sessionCapabilities: can = {} } = hello.agentCapabilities;
  if (can.fork) {
    try {
      fork = (await peer.request("session/fork", { sessionId, cwd, mcpServers: [] })).sessionId;
      const prompt = [{ type: "text", text: "Please do PLAIN-9 now." }];
      await peer.request("session/prompt", { sessionId: fork, prompt });
    } catch (error) {
      console.log(`# fork: ${error.message}`);
      fork = undefined;
    }
  }
  if (can.list) listed = (await peer.request("session/list", { cwd })).sessions;
  await session.end();
});

await check("its files are imported", () => {
  [imported] = run("import", "--json", source);
  const { failed, damagedLines, unknownKinds } = imported;
  if (failed + damagedLines > 0) throw new Error(JSON.stringify(imported));
  const kinds = Object.keys(unknownKinds);
  if (kinds.length > 0) throw new Error(`unknown kinds of records: ${kinds.join(", ")}`);
});

/** What was imported of the conversation that the tool knows by this id. */
function conversation(id) {
  const all = run("export", id, "--format", "json");
  const isOwn = ({ sessionId }) => sessionId === all.session.sessionId;
  return { ...all, ...contents(all.updates.filter(isOwn).map(({ update }) => update)) };
}

await check("what its client saw is read", () => {
  const sessions = run("sessions", "list", "--json");
  const own = conversation(session.id);
  const missing = prompts.filter((words) => !own.asked.includes(`Please do ${words} now.`));
  judge("prompts", true, missing.length === 0, missing.join(" "));
  // Line feeds between the parts of an answer are the client's to see.
  const plain = (text) => text.replace(/\s+/g, "");
  judge("answers", true, plain(own.said).startsWith(plain(live.said)), `${JSON.stringify(live.said)} was seen, ${JSON.stringify(own.said)} is read`);
  judge("thoughts", live.thought, own.thought.includes("Pondering THINK-2."));
  // Of what only waits for permission, or never ends for its client, there is nothing to compare.
  const ended = live.calls.filter(({ status }) => status === "completed" || status === "failed");
  const rest = [...own.calls];
  const unread = ended.filter((call) => {
    const at = rest.findIndex((one) => isDeepStrictEqual(one, call));
    rest.splice(0, at + 1);
    return at < 0;
  });
  judge("tool calls", live.calls.length, unread.length === 0, `${JSON.stringify(live.calls)} were seen, ${JSON.stringify(own.calls)} are read`);
  // Some tools keep a picture in a fork alone.
  const pictures = own.pictures || (fork ? conversation(fork).pictures : 0);
  judge("pictures", prompts.includes("IMAGE-6"), pictures === 1);
  if (read.pictures === "no" && !isKept(PIXEL.data)) read.pictures = "not kept";
  const others = own.updates.filter((of) => of.sessionId !== own.session.sessionId);
  judge("subagents", hasSubagent, JSON.stringify(others).includes("End of PLAIN-SPAWN7."));
  judge("before a compaction", isCompacted, own.said.includes("End of PLAIN-1.") && own.asked.includes("PLAIN-8"));
  judge("forks", fork, !fork || /PLAIN-1 [^]*PLAIN-9 /.test(conversation(fork).asked));
  const titles = new Map((listed ?? []).map((one) => [one.sessionId, one.title]));
  const title = titles.get(session.id);
  read.title = !title ? "none" : own.session.title === title ? "yes" : `"${title}" is "${own.session.title}"`;
  // Some tools list the sessions of subagents beside those that started them.
  const parts = new Set(others.map((of) => of.sessionId.split("/").at(-1)));
  const whole = (listed ?? []).filter((one) => !parts.has(one.sessionId));
  judge("list", listed, whole.length === sessions.length, `${whole.length} are listed, ${sessions.length} are read`);
  const lost = Object.entries(read).filter(([, how]) => /^no(:|$)/.test(how));
  if (lost.length > 0) throw new Error(lost.map(([what, how]) => `${what}: ${how}`).join("\n"));
});

const packages = tool.packages.map(installed);
const unknown = imported?.unknownKinds ?? {};
writeFileSync(report, JSON.stringify({ source, packages, read, unknown }));
await strike();
finish();
