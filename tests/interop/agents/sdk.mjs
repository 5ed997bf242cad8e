// Has the protocol's own Rust client drive an agent inside of rejoin: node sdk.mjs AGENT BINARY
//
// The client is the program `sdk-client` of tests/sdk, at the path that SDK_CLIENT has.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { finish, step } from "../support/checks.mjs";
import { stage } from "./support/stage.mjs";

const [name, binary] = process.argv.slice(2);
const { agent, cwd, env, strike } = await stage(name);

await step("version 2 of the Rust SDK: killed in mid-answer, resumed by the next process", async () => {
  const args = [binary, "wrap", "--", ...agent.command];
  const client = spawn(process.env.SDK_CLIENT, args, { cwd, env, stdio: ["ignore", "inherit", "inherit"] });
  const [code] = await once(client, "exit");
  assert.equal(code, 0);
});

await strike();
finish();
