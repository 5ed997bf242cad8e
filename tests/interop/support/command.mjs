// How a test starts rejoin: by itself, or wrapped around another rejoin that has a store of its own.

import { join } from "node:path";

/** Whether rejoin is the agent of a rejoin. */
export const wrapped = process.env.INTEROP_WRAPPED !== undefined;

/** The program and its arguments. */
export function command(binary, args = ["serve"]) {
  if (!wrapped) return [binary, ...args];
  const inner = join(process.env.INTEROP_DIR, "inner");
  return [binary, "wrap", "--", binary, "--store", inner, ...args];
}
