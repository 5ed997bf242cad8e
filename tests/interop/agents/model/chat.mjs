// OpenAI's chat completions.

import { parameters, textOf } from "./conversation.mjs";

export const path = /\/chat\/completions$/;

export function read(body) {
  const items = (body.messages ?? []).map(({ role, content }) => ({
    role: { user: "user", assistant: "model", tool: "tool" }[role] ?? "other",
    text: textOf(content),
  }));
  return {
    items,
    tools: (body.tools ?? []).map((tool) => ({
      name: tool.function?.name,
      takes: parameters(tool.function?.parameters),
    })),
    wantsJson: body.response_format !== undefined,
    streams: body.stream === true,
  };
}

const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 };

function frame(body, fields) {
  return { id: "chatcmpl-1", created: 1, model: body.model ?? "fake-model", ...fields };
}

/** The pieces as server-sent events, each sent as it is made. */
export async function stream(pieces, body, out) {
  const chunk = (delta, finish_reason = null) => out.data(frame(body, {
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason }],
  }));
  await chunk({ role: "assistant", content: "" });
  let reason = "stop";
  for (const piece of pieces) {
    if (piece.wait) await out.forever();
    if (piece.think) await chunk({ reasoning_content: piece.think });
    if (piece.text) await chunk({ content: piece.text });
    if (piece.tool) {
      reason = "tool_calls";
      await chunk({ tool_calls: [{ index: 0, ...call(piece) }] });
    }
  }
  await chunk({}, reason);
  await out.data(frame(body, { object: "chat.completion.chunk", choices: [], usage }));
  await out.line("data: [DONE]\n\n");
}

export function whole(pieces, body) {
  const tools = pieces.filter((piece) => piece.tool).map(call);
  const message = { role: "assistant", content: pieces.map(({ text }) => text ?? "").join("") };
  if (tools.length > 0) message.tool_calls = tools;
  const finish_reason = tools.length > 0 ? "tool_calls" : "stop";
  return frame(body, { object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage });
}

function call({ id, tool, input }) {
  return { id, type: "function", function: { name: tool, arguments: JSON.stringify(input) } };
}
