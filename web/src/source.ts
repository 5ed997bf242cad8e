/** Where a conversation comes from: it is embedded in the page. */

import { object, session, text, type Json, type Permission, type Session, type TurnEnd, type Update } from "./acp";

export interface Receiver {
  session(session: Session): void;
  update(update: Update): void;
  turn(end: TurnEnd): void;
  permission(asked: Permission): void;
  /** What was received until now may be shown. `complete` if all that is known was received. */
  received(complete: boolean): void;
}

/** How long the page may be busy before it shows what it has, in milliseconds. */
const SLICE = 30;

/**
 * Hands over the JSON lines in the page's data elements. They are read while the rest of the page
 * still arrives, and in slices, so that the first turns show at once.
 */
export function receive(receiver: Receiver): void {
  let data = "";
  let at = 0;
  /** The next line; `null` if it may come later. */
  const next = (): string | null | undefined => {
    while (at >= data.length) {
      const element = document.querySelector<HTMLElement>('script[type="application/json"]');
      if (document.readyState === "loading" && !element?.nextElementSibling) return null;
      if (!element) return undefined;
      [data, at] = [element.textContent ?? "", 0];
      element.remove();
    }
    const found = data.indexOf("\n", at);
    const end = found < 0 ? data.length : found;
    const line = data.slice(at, end);
    at = end + 1;
    return line;
  };
  const slice = () => {
    const until = performance.now() + SLICE;
    let line: string | null | undefined;
    while (typeof (line = next()) === "string") {
      if (line) handOver(line, receiver);
      if (performance.now() > until) break;
    }
    receiver.received(line === undefined);
    if (line !== undefined) setTimeout(slice);
  };
  slice();
}

function handOver(line: string, receiver: Receiver): void {
  const item = object(JSON.parse(line));
  const end = item["end"];
  if ("update" in item) receiver.update(update(item));
  else if ("permission" in item) receiver.permission(permission(item));
  else if ("turn" in item) {
    receiver.turn({ turn: Number(item["turn"]), at: text(item["at"]), end: end === undefined ? undefined : object(end) });
  } else receiver.session(session(item));
}

function permission(item: Json): Permission {
  const all = ["at", "sessionId", "toolCallId", "title", "decision", "decidedAt", "client"] as const;
  const [at, sessionId, toolCallId, title, decision, decidedAt, client] = all.map((name) => text(item[name]));
  const words = text(item["option"]) || text(item["reason"]);
  return { at, sessionId, toolCallId, title, decision, decidedAt, client, words, turn: Number(item["turn"]) || 0 } as Permission;
}

function update(params: Json): Update {
  const note = object(object(params["_meta"])["rejoin"]);
  return {
    sessionId: text(params["sessionId"]),
    update: object(params["update"]),
    at: text(note["at"]),
    turn: Number(note["turn"]) || 0,
  };
}
