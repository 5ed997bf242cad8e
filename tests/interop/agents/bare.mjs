// Measures what an agent alone brings back after it was killed: node bare.mjs AGENT
//
// Nothing is demanded of it here; the table in docs/agents.md is made from what this prints.

import { setTimeout as pause } from "node:timers/promises";
import { PIXEL } from "./support/pixel.mjs";
import { compare } from "./support/compare.mjs";
import { Session } from "./support/session.mjs";
import { stage } from "./support/stage.mjs";

const { agent, cwd, env, folder, marker, model, strike } = await stage(process.argv[2]);
const session = new Session({ ...agent, cwd, env, marker, folder });

/** Some agents answer a load first and replay afterwards: until nothing came for a while. */
async function quiet() {
  for (let seen = -1; seen !== session.peer.lines.length;) {
    seen = session.peer.lines.length;
    await pause(1500);
  }
}

try {
  await session.start();
  await session.new();
  const { agentInfo } = session.hello;
  for (const words of ["PLAIN-1", "THINK-2", "TOOL-3", "RUN-4"]) await session.prompt(words);
  await session.prompt("IMAGE-5", PIXEL);
  await session.cancel("SLOW-6", "chunk 4");
  await session.kill("SLOW-7", "chunk 4");
  await session.start();
  const before = session.peer.lines.length;
  const inTime = await session.load().catch((error) => error);
  await quiet();
  const replay = session.peer.updates(session.id, before);
  const live = structuredClone(session.turns);
  const next = inTime instanceof Error ? undefined : await session.prompt("PLAIN-8").catch(String);
  const body = model.turns.findLast((turn) => turn.name === "PLAIN-8")?.body ?? "";
  const report = {
    version: agentInfo,
    load: inTime instanceof Error ? String(inTime) : "ok",
    afterResponse: replay.length - (inTime.length ?? 0),
    next,
    context: Object.fromEntries(live.map(({ words }) => [words, body.includes(words)])),
    ...compare(live, replay),
    stops: live.map(({ words, stop }) => `${words}: ${stop}`),
    took: session.took,
    asides: model.others,
  };
  console.log(`ok - measured\n${JSON.stringify(report, null, 2)}`);
} finally {
  await strike();
}
