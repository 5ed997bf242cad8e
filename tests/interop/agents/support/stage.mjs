// What each of these scripts needs: an agent in a folder of its own, and a model server for it.

import { AGENTS, environment, furnish } from "../agents.mjs";
import { ModelServer } from "../model/server.mjs";
import { killAll } from "./processes.mjs";

/** Sets up the agent of this name, or another one, in the folder that `INTEROP_DIR` names. */
export async function stage(name, agent = AGENTS[name]) {
  const folder = process.env.INTEROP_DIR;
  const marker = `REJOIN_AGENT_RUN=${folder}`;
  const model = new ModelServer(`${folder}/project`);
  const url = await model.start();
  const cwd = furnish(agent, folder, url);
  const env = { ...environment(agent, folder, url, marker), REJOIN_STORE: `${folder}/store` };
  const strike = async () => {
    await killAll(marker);
    await model.stop();
  };
  return { agent, cwd, env, folder, marker, model, strike };
}
