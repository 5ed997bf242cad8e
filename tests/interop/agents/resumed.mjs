// A session behind rejoin goes on in the agent's own terminal program: node resumed.mjs AGENT BINARY
//
// `rejoin resume --exec` starts that program with the id by which the agent knows the session, and the
// program shows what was said.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { finish, step } from "../support/checks.mjs";
import { PROGRAMS } from "./agents.mjs";
import { Session } from "./support/session.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, folder, marker, strike } = await stage(name);
const command = [binary, "wrap", "--", ...agent.command];
const session = new Session({ ...agent, command, cwd, env, marker, folder });
const terminal = fileURLToPath(new URL("support/in_terminal.py", import.meta.url));

await step("a session behind rejoin is prompted", async () => {
  await session.start();
  await session.new();
  assert.equal(await session.prompt("PLAIN-1"), "end_turn");
  await session.peer.end();
});

await step("its own program for the terminal shows it", () => {
  const bin = `${folder}/bin`;
  mkdirSync(bin);
  if (name === "claude") {
    // Its first start asks for a theme, and whether the key and the folder are meant.
    const file = `${folder}/home/.claude.json`;
    const known = existsSync(file) ? JSON.parse(readFileSync(file)) : {};
    known.hasCompletedOnboarding = true;
    known.customApiKeyResponses = { approved: ["x"], rejected: [] };
    known.projects = { ...known.projects, [cwd]: { ...known.projects?.[cwd], hasTrustDialogAccepted: true } };
    writeFileSync(file, JSON.stringify(known));
  }
  const [program, ...words] = PROGRAMS[name];
  const start = words.map((word) => `'${word}'`).join(" ");
  writeFileSync(`${bin}/${program}`, `#!/bin/sh\nexec ${start} "$@"\n`, { mode: 0o755 });
  const line = execFileSync(binary, ["resume", "last"], { env: { ...env, PATH: `${bin}:${env.PATH}` }, encoding: "utf8" });
  console.log(line.trim().replace(cwd, "FOLDER"));
  const wanted = "End of PLAIN-1.";
  const here = { cwd: "/", env: { ...env, PATH: `${bin}:${env.PATH}` }, encoding: "utf8" };
  const shown = spawnSync("python3", [terminal, "60", wanted, binary, "resume", "last", "--exec"], here);
  assert.equal(shown.status, 0, `not shown: ${shown.stdout.slice(-2000)}`);
});

await strike();
finish();
