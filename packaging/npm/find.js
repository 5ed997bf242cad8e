"use strict";

// Finds the binary in the package for this system, which npm has installed as an optional dependency.

const path = require("node:path");

module.exports = function find() {
  const name = `rejoin-${process.platform}-${process.arch}`;
  const program = process.platform === "win32" ? "rejoin.exe" : "rejoin";
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), program);
  } catch {
    throw new Error(
      `rejoin: the package ${name} is not installed. Either there is none for this system, or npm ` +
        "was run with --omit=optional. Other ways to install: see the project's README.",
    );
  }
};
