// Anthropic's messages.

import { parameters, textOf } from "./conversation.mjs";

export const path = /\/v1\/messages$/;

export function read(body) {
  const items = (body.messages ?? []).flatMap(({ role, content }) => {
    const blocks = Array.isArray(content) ? content : [{ type: "text", text: content }];
    const results = blocks.filter(({ type }) => type === "tool_result");
    const rest = blocks.filter(({ type }) => type !== "tool_result");
    return [
      ...(rest.length > 0 ? [{ role: role === "user" ? "user" : "model", text: textOf(rest) }] : []),
      ...results.map((block) => ({ role: "tool", text: textOf(block.content) })),
    ];
  });
  return {
    items,
    tools: (body.tools ?? []).map((tool) => ({ name: tool.name, takes: parameters(tool.input_schema) })),
    wantsJson: body.output_config?.format !== undefined || body.output_format !== undefined,
    streams: body.stream === true,
  };
}

const usage = { input_tokens: 10, output_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
let made = 0;

function message(body, content, stop_reason) {
  made += 1;
  return { id: `msg_${made}`, type: "message", role: "assistant", model: body.model, content, stop_reason, stop_sequence: null, usage };
}

/** Pieces of one kind that follow each other make one block. */
export async function stream(pieces, body, out) {
  const event = (type, fields) => out.event(type, { type, ...fields });
  await event("message_start", { message: message(body, [], null) });
  let index = -1;
  let open;
  const begin = async (kind, content_block) => {
    if (open === kind && kind !== "tool") return;
    if (open) await event("content_block_stop", { index });
    open = kind;
    index += 1;
    await event("content_block_start", { index, content_block });
  };
  const delta = (fields) => event("content_block_delta", { index, delta: fields });
  for (const piece of pieces) {
    if (piece.wait) await out.forever();
    if (piece.think) {
      await begin("think", { type: "thinking", thinking: "", signature: "" });
      await delta({ type: "thinking_delta", thinking: piece.think });
    }
    if (open === "think" && !piece.think) await delta({ type: "signature_delta", signature: "c2lnbmVk" });
    if (piece.text) {
      await begin("text", { type: "text", text: "" });
      await delta({ type: "text_delta", text: piece.text });
    }
    if (piece.tool) {
      await begin("tool", { type: "tool_use", id: `toolu_${piece.id}`, name: piece.tool, input: {} });
      await delta({ type: "input_json_delta", partial_json: JSON.stringify(piece.input) });
    }
  }
  if (open) await event("content_block_stop", { index });
  await event("message_delta", { delta: { stop_reason: reason(pieces), stop_sequence: null }, usage });
  await event("message_stop", {});
}

export function whole(pieces, body) {
  const content = pieces.filter((piece) => piece.text || piece.tool).map((piece) => piece.tool
    ? { type: "tool_use", id: `toolu_${piece.id}`, name: piece.tool, input: piece.input }
    : { type: "text", text: piece.text });
  return message(body, content, reason(pieces));
}

function reason(pieces) {
  return pieces.some((piece) => piece.tool) ? "tool_use" : "end_turn";
}
