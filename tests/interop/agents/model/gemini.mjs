// Google's generateContent and streamGenerateContent.

import { parameters } from "./conversation.mjs";

export const path = /:(stream)?[gG]enerateContent$/;

export function read(body, url) {
  const items = (body.contents ?? []).flatMap(({ role, parts = [] }) => {
    const results = parts.filter((part) => part.functionResponse);
    const text = parts.map((part) => part.text ?? "").join("\n");
    const own = { role: role === "model" ? "model" : "user", text };
    return [
      ...(parts.length > results.length ? [own] : []),
      ...results.map((part) => ({ role: "tool", text: JSON.stringify(part.functionResponse.response) })),
    ];
  });
  const { generationConfig: config = {} } = body;
  return {
    items,
    tools: (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map((tool) => ({
      name: tool.name,
      takes: parameters(tool.parametersJsonSchema ?? tool.parameters),
    })),
    wantsJson: config.responseMimeType === "application/json",
    streams: url.pathname.includes(":stream"),
  };
}

function response(parts, finishReason) {
  return {
    candidates: [{ content: { role: "model", parts }, index: 0, ...(finishReason ? { finishReason } : {}) }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 },
    modelVersion: "fake-model",
    responseId: "response-1",
  };
}

function part(piece) {
  if (piece.think) return { text: piece.think, thought: true };
  if (piece.tool) return { functionCall: { id: piece.id, name: piece.tool, args: piece.input } };
  return { text: piece.text };
}

export async function stream(pieces, _, out) {
  const all = [...pieces];
  while (all.length > 0) {
    const piece = all.shift();
    if (piece.wait) await out.forever();
    await out.data(response([part(piece)], all.length === 0 ? "STOP" : undefined));
  }
}

export function whole(pieces) {
  return response(pieces.filter((piece) => !piece.wait).map(part), "STOP");
}
