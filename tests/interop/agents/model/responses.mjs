// OpenAI's responses, which only stream here.

import { parameters, textOf } from "./conversation.mjs";

export const path = /\/responses$/;

export function read(body) {
  const input = typeof body.input === "string" ? [{ role: "user", content: body.input }] : body.input ?? [];
  const items = input.map((item) => {
    if (/_call_output$/.test(item.type ?? "")) return { role: "tool", text: textOf(item.output) };
    const role = { user: "user", assistant: "model" }[item.role] ?? "other";
    return { role, text: textOf(item.content) };
  });
  return {
    items,
    tools: (body.tools ?? []).flatMap(toolsOf),
    wantsJson: body.text?.format !== undefined,
    streams: true,
  };
}

/** A tool, or those of a namespace. */
function toolsOf({ name, type, parameters: schema, tools }) {
  if (type !== "namespace") return [{ name: name ?? type, takes: parameters(schema) }];
  return tools.map((tool) => ({ name: tool.name, namespace: name, takes: parameters(tool.parameters) }));
}

/** How many items were made: each has an id of its own. */
let made = 0;

export async function stream(pieces, body, out) {
  let number = 0;
  const event = (type, fields) => out.event(type, { type, sequence_number: number++, ...fields });
  const response = (status, output) => ({
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: body.model ?? "fake-model",
    status,
    output,
  });
  await event("response.created", { response: response("in_progress", []) });
  const output = [];
  for (const run of runs(pieces)) {
    const output_index = output.length;
    const item = await writers[run.kind](run.pieces, output_index, event, out);
    output.push(item);
    await event("response.output_item.done", { output_index, item });
  }
  const usage = {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 10,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 20,
  };
  await event("response.completed", { response: { ...response("completed", output), usage } });
}

/** Pieces of one kind that follow each other make one item of the output. */
function runs(pieces) {
  const found = [];
  for (const piece of pieces) {
    const kind = piece.think ? "think" : piece.tool ? "tool" : "text";
    if (found.at(-1)?.kind === kind && kind !== "tool") found.at(-1).pieces.push(piece);
    else found.push({ kind, pieces: [piece] });
  }
  return found;
}

const writers = {
  async think(pieces, output_index, event) {
    const item = { id: `rs_${made += 1}`, type: "reasoning", summary: [] };
    const at = { item_id: item.id, output_index, summary_index: 0 };
    await event("response.output_item.added", { output_index, item });
    await event("response.reasoning_summary_part.added", { ...at, part: { type: "summary_text", text: "" } });
    for (const { think } of pieces) await event("response.reasoning_summary_text.delta", { ...at, delta: think });
    const text = pieces.map(({ think }) => think).join("");
    const part = { type: "summary_text", text };
    await event("response.reasoning_summary_text.done", { ...at, text });
    await event("response.reasoning_summary_part.done", { ...at, part });
    return { ...item, summary: [part], encrypted_content: "" };
  },

  async text(pieces, output_index, event, out) {
    const item = { id: `msg_${made += 1}`, type: "message", role: "assistant", status: "in_progress", content: [] };
    const at = { item_id: item.id, output_index, content_index: 0 };
    const part = { type: "output_text", text: "", annotations: [] };
    await event("response.output_item.added", { output_index, item });
    await event("response.content_part.added", { ...at, part });
    for (const piece of pieces) {
      if (piece.wait) await out.forever();
      await event("response.output_text.delta", { ...at, delta: piece.text });
    }
    const text = pieces.map((piece) => piece.text).join("");
    await event("response.output_text.done", { ...at, text });
    await event("response.content_part.done", { ...at, part: { ...part, text } });
    return { ...item, status: "completed", content: [{ ...part, text }] };
  },

  async tool([{ id, tool, namespace, input }], output_index, event) {
    const args = JSON.stringify(input);
    const item = { id: `fc_${made += 1}`, type: "function_call", call_id: id, name: tool, namespace, arguments: "", status: "in_progress" };
    const at = { item_id: item.id, output_index };
    await event("response.output_item.added", { output_index, item });
    await event("response.function_call_arguments.delta", { ...at, delta: args });
    await event("response.function_call_arguments.done", { ...at, arguments: args });
    return { ...item, arguments: args, status: "completed" };
  },
};
