// Says in what an agent's own replay differs from what its client saw live.

import { isDeepStrictEqual } from "node:util";
import { Transcript } from "../../support/transcript.mjs";

/** The live turns against the replay's updates: texts by role, and tool calls by field. */
export function compare(turns, replay) {
  const live = new Transcript();
  for (const { prompt, updates } of turns) {
    live.prompt(prompt);
    for (const raw of updates) {
      const update = JSON.parse(raw);
      if (update.sessionUpdate !== "user_message_chunk") safely(live, update);
    }
  }
  const back = new Transcript();
  for (const raw of replay) safely(back, JSON.parse(raw));
  const found = {};
  for (const role of ["user", "agent", "thought"]) {
    const [before, after] = [live.text(role), back.text(role)];
    found[role] = before === after ? "same" : { before, after };
  }
  const images = (transcript) => transcript.items.flatMap((item) => item.blocks ?? [])
    .filter((block) => block.content?.type === "image").length;
  found.images = `${images(live)} -> ${images(back)}`;
  const tools = (transcript) => transcript.items.filter((item) => item.tool);
  found.tools = `${tools(live).length} -> ${tools(back).length}`;
  found.toolFields = tools(live).map((before, at) => differences(before, tools(back)[at] ?? {}));
  found.updates = `${turns.flatMap(({ updates }) => updates).length} -> ${replay.length}`;
  return found;
}

function differences(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const text = (value) => JSON.stringify(value);
  return [...names].filter((name) => !isDeepStrictEqual(before[name], after[name]))
    .map((name) => `${name}: ${text(before[name])} -> ${text(after[name])}`);
}

/** What breaks the rules of a transcript is left out of it. */
function safely(transcript, update) {
  try {
    transcript.update(update);
  } catch {
    // An update of a call that was never made known.
  }
}
