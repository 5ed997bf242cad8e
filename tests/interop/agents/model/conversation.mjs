// What a model is asked, free of the dialect it was asked in.
//
// A request is { items, tools, wantsJson, streams }. An item is { role, text }: role is "user",
// "model" or "tool" (the result of a tool call). A tool is
// { name, takes } with the names of its parameters.

/** The word in a user's text that says what to answer, such as `TOOL-3`. */
const WORD = /\b(PLAIN|THINK|TOOL|RUN|SHOW|LIST|RECALL|IMAGE|SLOW|SPAWN|LEAVE)-(\w+)/g;

/** How an agent tells the model that a subagent has ended, in the subagent's own words. */
const NOTIFICATION = /<task-notification>[^]*?<\/task-notification>/;

/**
 * What the last word in the user's texts asks for, and how many tools have been run since; null if
 * this is no turn of the conversation, such as an agent's request for a title.
 */
export function asked({ items, tools }) {
  if (tools.length === 0) return null;
  for (let at = items.length - 1; at >= 0; at -= 1) {
    if (items[at].role !== "user") continue;
    const { text } = items[at];
    if (text.includes("Implement the following plan")) return { what: "PLAIN", name: "PLAIN-PLANNED", results: 0 };
    const word = [...text.replace(NOTIFICATION, "").matchAll(WORD)].at(-1);
    if (!word && NOTIFICATION.test(text)) return { what: "PLAIN", name: "PLAIN-NOTIFIED", results: 0 };
    if (!word) continue;
    const results = items.slice(at + 1).filter(({ role }) => role === "tool").length;
    return { what: word[1], name: word[0], results };
  }
  return null;
}

/** The text of content that is a string, a block, or a list of blocks. */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map(textOf).join("\n");
  return content?.text ?? "";
}

/** The names of the parameters in the schema of a tool. */
export function parameters(schema) {
  return Object.keys(schema?.properties ?? {});
}
