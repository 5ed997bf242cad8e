/** What the page knows of the protocol. Everything comes from others, so every member may be missing or of another type. */

export type Json = Record<string, unknown>;

/** The parameters of a `session/update` notification, with our note. */
export interface Update {
  sessionId: string;
  update: Json;
  at: string;
  turn: number;
}

/** How a turn ended; without an `end` it has none. */
export interface TurnEnd {
  turn: number;
  at?: string;
  end?: Json;
}

export interface Session {
  sessionId: string;
  title: string;
  cwd: string;
  agent: string;
  /** The session as its agent knows it. */
  agentSession?: { agent: string; sessionId: string } | null;
  model: string;
  createdAt: string;
  updatedAt: string;
  turns: number;
  cost: Json;
  damage: string[];
  /** What its tool has written since it was continued here. */
  toolBranch: { tool: string; turns: number } | null;
  /** What the program knows of kinds of updates, by their names. */
  kinds: Record<string, Json>;
}

/** A request for permission, and what became of it. */
export interface Permission {
  at: string;
  turn: number;
  sessionId: string;
  toolCallId: string;
  title: string;
  decision: string;
  /** The answer that was chosen, or why there is none. */
  words: string;
  decidedAt: string;
  client: string;
}

export function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(object) : [];
}

/** A text as content blocks: a string, a block or a list of blocks. */
export function blocks(value: unknown): Json[] {
  if (typeof value === "string") return [{ type: "text", text: value }];
  return Array.isArray(value) ? list(value) : value ? [object(value)] : [];
}

/** The names of agents for people, by their other names in lower case; the build takes them from the program's list. */
declare const AGENT_NAMES: Record<string, string>;

/** An agent's name for people. */
export function product(name: string): string {
  return AGENT_NAMES[name.toLowerCase()] ?? name;
}

export function session(value: Json): Session {
  const branch = value["toolBranch"] ? object(value["toolBranch"]) : null;
  return {
    sessionId: text(value["sessionId"]),
    title: text(value["title"]),
    cwd: text(value["cwd"]),
    agent: product(text(value["agent"])),
    model: text(value["model"]),
    createdAt: text(value["createdAt"]),
    updatedAt: text(value["updatedAt"]),
    turns: Number(value["turns"]) || 0,
    cost: object(value["cost"]),
    damage: Array.isArray(value["damage"]) ? value["damage"].map(text) : [],
    toolBranch: branch && { tool: text(branch["tool"]), turns: Number(branch["turns"]) || 0 },
    kinds: Object.fromEntries(Object.entries(object(value["kinds"])).map(([name, kind]) => [name, object(kind)])),
  };
}

/** The readable text of a content block; empty for images and the like. */
export function blockText(block: Json): string {
  switch (block["type"]) {
    case "text":
      return text(block["text"]);
    case "resource_link":
      return `${text(block["name"])} ${text(block["uri"])}`;
    case "resource": {
      const resource = object(block["resource"]);
      return `${text(resource["uri"])}\n${text(resource["text"])}`;
    }
    default:
      return "";
  }
}
