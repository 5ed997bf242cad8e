// Holds every line of a connection against the protocol's own JSON schema.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import Ajv2020 from "ajv/dist/2020.js";

const CLIENT_NEEDS = {
  "fs/read_text_file": (caps) => caps.fs?.readTextFile,
  "fs/write_text_file": (caps) => caps.fs?.writeTextFile,
  "elicitation/create": (caps) => caps.elicitation,
};

/** The types of one edition of the schema, by method. */
class Edition {
  constructor(name) {
    const file = import.meta.resolve(`@agentclientprotocol/sdk/schema/${name}.json`);
    this.schema = JSON.parse(readFileSync(fileURLToPath(file), "utf8"));
    this.ajv = new Ajv2020.default({ strict: false, validateFormats: false, allErrors: true });
    this.ajv.addSchema(this.schema, "acp");
    this.types = new Map();
    for (const [type, definition] of Object.entries(this.schema.$defs)) {
      if (definition["x-method"]) {
        const kind = /(Request|Response|Notification)$/.exec(type)[1];
        this.types.set(`${definition["x-side"]} ${definition["x-method"]} ${kind}`, type);
      }
    }
  }

  /** What is wrong with a value; null if nothing is, undefined if there is no such type. */
  errors(key, value) {
    const type = this.types.get(key);
    return type === undefined ? undefined : this.errorsOf(type, value);
  }

  errorsOf(type, value) {
    const validate = this.ajv.getSchema(`acp#/$defs/${type}`);
    if (validate(value)) return null;
    const reasons = validate.errors.map((e) => `${e.instancePath || "."} ${e.message}`);
    return `${type}: ${[...new Set(reasons)].slice(0, 8).join("; ")}`;
  }
}

const editions = new Map();

function edition(name) {
  if (!editions.has(name)) editions.set(name, new Edition(name));
  return editions.get(name);
}

/** One connection as the schema sees it. Throws at the first line that breaks a rule. */
export class Validator {
  #waiting = new Map();
  #asked = new Map();
  #capabilities = {};
  #version = 1;
  #garbage = 0;

  /** A line of the client. What is no JSON may be answered with a null id. */
  fromClient(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      this.#garbage += 1;
      return;
    }
    if (message === null || typeof message !== "object" || Array.isArray(message)) {
      this.#garbage += 1;
    } else if (message.method !== undefined && message.id !== undefined) {
      if (message.method === "initialize") {
        const { clientCapabilities, capabilities } = message.params ?? {};
        this.#capabilities = clientCapabilities ?? capabilities ?? {};
      }
      this.#waiting.set(JSON.stringify(message.id), message.method);
    } else if (message.method === undefined && message.id !== undefined) {
      this.#asked.delete(JSON.stringify(message.id));
    }
  }

  /** A line of the agent, as bytes without its newline. Returns the message. */
  fromAgent(bytes) {
    const line = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const message = JSON.parse(line);
    const complain = (why) => {
      throw new Error(`${why}\n  in ${line.length > 2000 ? `${line.slice(0, 2000)}…` : line}`);
    };
    if (message === null || typeof message !== "object" || Array.isArray(message)) {
      complain("not a JSON-RPC object");
    }
    if (message.jsonrpc !== "2.0") complain("not marked as JSON-RPC 2.0");
    const why = message.method === undefined ? this.#answer(message) : this.#call(message);
    if (why) complain(why);
    return message;
  }

  /** Requests without an answer so far. */
  get unanswered() {
    return [...this.#waiting.values()];
  }

  #call(message) {
    const { method, id, params } = message;
    if (id !== undefined) {
      const key = JSON.stringify(id);
      if (this.#asked.has(key)) return `request id ${key} is in use`;
      this.#asked.set(key, method);
      const needs = CLIENT_NEEDS[method]
        ?? (method.startsWith("terminal/") ? (caps) => caps.terminal : () => true);
      if (!needs(this.#capabilities)) return `the client did not offer ${method}`;
    }
    const kind = id === undefined ? "Notification" : "Request";
    return this.#typed(["client", "protocol"], method, kind, params);
  }

  #answer(message) {
    const { id, result, error } = message;
    if ((result === undefined) === (error === undefined)) return "not one of result and error";
    const key = JSON.stringify(id);
    const method = this.#waiting.get(key);
    if (method === undefined) {
      const excused = id === null && error !== undefined && this.#garbage > 0;
      if (!excused) return `answers id ${key}, which waits for nothing`;
      this.#garbage -= 1;
    }
    this.#waiting.delete(key);
    if (error !== undefined) {
      if (typeof error?.message !== "string") return "an error without a message";
      if (/[\r\n]/.test(error.message)) return "an error message of several lines";
      if (error.code === -32000) return "the code that opens a sign-in page";
      return edition(this.#name()).errorsOf("Error", error);
    }
    if (result === null || typeof result !== "object" || Array.isArray(result)) {
      return `the result of ${method} is no object`;
    }
    if (method === "initialize") this.#version = result.protocolVersion;
    return this.#typed(["agent"], method, "Response", result);
  }

  /** By the stable schema; what is not in there by the unstable one, or it is an extension. */
  #typed(sides, method, kind, value) {
    for (const name of [this.#name(), `${this.#name()}.unstable`]) {
      for (const side of sides) {
        const errors = edition(name).errors(`${side} ${method} ${kind}`, value);
        if (errors !== undefined) return errors;
      }
    }
    const known = method.startsWith("_") || method === "session/get";
    return known ? null : `${method} is in no edition of the schema`;
  }

  #name() {
    return this.#version === 2 ? "v2/schema" : "v1/schema";
  }
}
