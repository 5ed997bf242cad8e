// A model server on loopback that answers by rule, in four dialects, and remembers what it was asked.

import { createServer } from "node:http";
import * as chat from "./chat.mjs";
import * as gemini from "./gemini.mjs";
import * as messages from "./messages.mjs";
import * as responses from "./responses.mjs";
import { asked } from "./conversation.mjs";
import { answer, fullName } from "./script.mjs";

const DIALECTS = [chat, responses, messages, gemini];
const NAME = "fake-model";

export class ModelServer {
  /** The requests of turns: { name, results, tools, body } with the body as it came. */
  turns = [];
  /** What was asked besides, and by what method: for whoever looks into a failure. */
  others = [];
  #server;

  /** `folder` is where files are written by the tools that the model calls. */
  constructor(folder) {
    this.folder = folder;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error) => {
        this.others.push(`${request.method} ${request.url}: ${error.stack}`);
        response.destroy();
      });
    });
  }

  async start() {
    await new Promise((resolve, reject) => {
      this.#server.on("error", reject);
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
    return this.url;
  }

  stop() {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request, response) {
    const url = new URL(request.url, "http://localhost");
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const dialect = request.method === "POST" && DIALECTS.find(({ path }) => path.test(url.pathname));
    if (!dialect) {
      this.others.push(`${request.method} ${request.url}`);
      return json(response, aside(url));
    }
    const body = JSON.parse(text);
    const question = dialect.read(body, url);
    const turn = asked(question);
    if (turn) this.turns.push({ ...turn, tools: question.tools.map(fullName), body: text });
    else this.others.push(`${request.method} ${request.url} tools: ${question.tools.length}`);
    const pieces = answer(question, this.folder);
    if (!question.streams) return json(response, dialect.whole(pieces, body));
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    await dialect.stream(pieces, body, new Events(response));
    response.end();
  }
}

/** What is neither a question to the model nor unknown to every server. */
function aside({ pathname }) {
  if (/count_?tokens$/i.test(pathname)) return { input_tokens: 10, totalTokens: 10 };
  if (/\/models$/.test(pathname)) {
    return {
      object: "list",
      data: [{ id: NAME, type: "model", object: "model", display_name: NAME, created: 1, owned_by: "us" }],
      models: [{ name: `models/${NAME}`, supportedGenerationMethods: ["generateContent"] }],
      has_more: false,
    };
  }
  return {};
}

function json(response, value) {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

/** Server-sent events; each write is a packet of its own, so that chunks stay chunks. */
class Events {
  #response;

  constructor(response) {
    this.#response = response;
    response.socket.setNoDelay(true);
  }

  async line(text) {
    if (this.#response.destroyed) return;
    await new Promise((resolve) => this.#response.write(text, () => setImmediate(resolve)));
  }

  data(value) {
    return this.line(`data: ${JSON.stringify(value)}\n\n`);
  }

  event(name, value) {
    return this.line(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`);
  }

  /** Stands still until the client hangs up, and then says no more. */
  async forever() {
    if (!this.#response.destroyed) {
      await new Promise((resolve) => this.#response.on("close", resolve));
    }
    throw new Error("the client hung up");
  }
}
