// Holds what a client saw through rejoin against what its agent said in the same run, byte for byte.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isHistory } from "./history.mjs";
import { texts } from "./raw.mjs";

/** The command that writes down what this command is sent and says. */
export function relayed(record, command) {
  return [process.execPath, fileURLToPath(new URL("relay.mjs", import.meta.url)), record, ...command];
}

/** The form of rejoin's session cursors. */
const OWN_CURSOR = /^[ab]\d+-[0-9a-f]{8}$/;

/** The lines of a record as { from, raw, message }, without those that are no messages. */
function lines(file) {
  return readFileSync(file, "utf8").split("\n").flatMap((line) => {
    const [, from, raw] = /^(client|agent) (\{.*)$/.exec(line) ?? [];
    return from ? [{ from, raw, message: JSON.parse(raw) }] : [];
  });
}

/**
 * What the agent's side of a record says, by stream: each session's messages with the answers to its
 * prompts, the other messages, and the other answers. Sessions that are prompted are named by their
 * order. `prompted` leaves out what was said before the first prompt, what is not history, and other
 * sessions than the first: the answers to a load or a fork, what an agent repeats there and what
 * describes the present are rejoin's to tell then.
 */
export function said(file, prompted = false) {
  const all = lines(file);
  const prompts = all.filter(({ message }) => message.method === "session/prompt");
  const own = [...new Set(prompts.map(({ message }) => message.params.sessionId))];
  const name = (session) => (own.includes(session) ? `session ${own.indexOf(session)}` : session);
  // What a tool was given is the agent's own and stays.
  const named = (raw) => raw.replace(/(?<="\w*[sS]essionId":)"[^"]*"/g, (id) => JSON.stringify(name(JSON.parse(id))));
  const asked = new Map();
  const streams = {};
  let isOpen = !prompted;
  for (const { from, raw: line, message } of all) {
    const { id, method, params } = message;
    const raw = named(line);
    if (from === "client") {
      isOpen ||= method === "session/prompt";
      if (isOpen && method !== undefined && id !== undefined) asked.set(id, { method, params });
    } else if (isOpen && method !== undefined) {
      // The places at which rejoin can fork a session are its own.
      if (OWN_CURSOR.test(params?.update?.cursorId)) continue;
      if (prompted && params?.update && !isHistory(JSON.stringify(params.update))) continue;
      const { sessionId, ...others } = texts(texts(raw).params ?? "{}");
      const stream = params?.sessionId ? name(params.sessionId) : "no session";
      (streams[stream] ??= []).push({ method, asks: id !== undefined, ...others });
    } else if (asked.has(id)) {
      const { method, params } = asked.get(id);
      // rejoin closes what its client does not.
      if (method === "session/close" || (prompted && method !== "session/prompt")) continue;
      const { sessionId, ...result } = texts(texts(raw).result ?? "{}");
      const stream = method === "session/prompt" ? name(params.sessionId) : "answers";
      (streams[stream] ??= []).push({ answers: method, ...result, error: texts(raw).error });
    }
  }
  if (!prompted) return streams;
  const { "session 0": first, "no session": none } = streams;
  return { "session 0": first, "no session": none };
}

const update = (one) => (one?.update ? JSON.parse(one.update) : {});

/** What may differ in a message that both have: changes what the client saw into what the agent said. */
const CHANGES = [
  {
    why: "a message gets an id if the agent gives it none; it stands last",
    undo(seen, said) {
      const { sessionUpdate, messageId } = update(said);
      if (!/_chunk$/.test(sessionUpdate) || messageId !== undefined) return seen;
      return { ...seen, update: seen.update?.replace(/,"messageId":"[^"]*"\}$/, "}") };
    },
  },
  {
    why: "ids of messages and tool calls that the agent uses twice get a number",
    undo(seen, said) {
      const ids = [update(said).messageId, update(said).toolCallId].filter(Boolean);
      const own = (text) => ids.reduce((text, id) => text.replace(`"${id}~2"`, `"${id}"`), text);
      return seen.update ? { ...seen, update: own(seen.update) } : seen;
    },
  },
  {
    why: "the answer to initialize has what rejoin adds to it",
    undo(seen, said) {
      if (seen.answers !== "initialize" || said?.answers !== "initialize") return seen;
      if (seen.capabilities) return initializedV2(seen, said);
      const rest = structuredClone(seen);
      const [mine, theirs] = [seen, said].map((one) => JSON.parse(one.agentCapabilities));
      mine.loadSession = theirs.loadSession;
      if (!theirs.sessionHistory) delete mine.sessionHistory;
      delete mine._meta?.rejoin;
      const added = ["list", "resume", "close", "delete", "fork"];
      for (const name of added) {
        if (theirs.sessionCapabilities?.[name] === undefined) delete mine.sessionCapabilities?.[name];
      }
      if (theirs.sessionCapabilities === undefined) delete mine.sessionCapabilities;
      assert.deepEqual({ _meta: {}, ...mine }, { _meta: {}, ...theirs }, "capabilities");
      rest.agentCapabilities = said.agentCapabilities;
      const { rejoin, ...meta } = JSON.parse(seen._meta);
      assert(rejoin.name === "rejoin");
      assert.deepEqual(meta, JSON.parse(said._meta ?? "{}"));
      rest._meta = said._meta;
      return rest;
    },
  },
];

/** The same in version 2. */
function initializedV2(seen, said) {
  const [mine, theirs] = [seen, said].map((one) => JSON.parse(one.capabilities));
  if (theirs.session.delete === undefined) delete mine.session.delete;
  delete mine._meta?.rejoin;
  assert.deepEqual({ _meta: {}, ...mine }, { _meta: {}, ...theirs }, "capabilities");
  const { rejoin, ...meta } = JSON.parse(seen._meta);
  assert.equal(rejoin.name, "rejoin");
  assert.deepEqual(meta, JSON.parse(said._meta ?? "{}"));
  return { ...seen, capabilities: said.capabilities, _meta: said._meta };
}

/** What only the client saw. */
const ADDED = [
  {
    why: "a session without a title gets one made from its first prompt",
    is: (one) => update(one).sessionUpdate === "session_info_update" && update(one).title !== undefined,
  },
  {
    why: "an agent that goes on from a briefing does so with a line that says so",
    is: (one) => update(one).content?.text?.startsWith("[rejoin] "),
  },
  {
    why: "a replay is rejoin's",
    is: (one) => one._meta !== undefined && JSON.parse(one._meta).rejoin?.at !== undefined,
  },
];


/**
 * Each stream of `seen` is that of `said`, but for what is allowed to differ. If both were `killed`,
 * the client may have seen less of the last words.
 */
export function assertPassed(seen, said, killed = false) {
  for (const name of new Set([...Object.keys(seen), ...Object.keys(said)])) {
    const [mine, theirs] = [[...(seen[name] ?? [])], [...(said[name] ?? [])]];
    for (let at = 0; mine.length > 0 || theirs.length > 0; at += 1) {
      const [first, wanted] = [mine[0], theirs[0]];
      if (killed && first === undefined) break;
      const same = first && CHANGES.reduce((one, { undo }) => undo(one, wanted), first);
      if (same && JSON.stringify(sorted(same)) === JSON.stringify(sorted(wanted ?? {}))) {
        mine.shift();
        theirs.shift();
      } else if (first && ADDED.some(({ is }) => is(first))) {
        mine.shift();
      } else {
        assert.deepEqual(same, wanted, `message ${at} of ${name} differs`);
      }
    }
  }
}

/** Members have no order. */
function sorted(one) {
  return Object.entries(one).filter(([, value]) => value !== undefined).sort();
}
