"use strict";

// Puts the binary in the place of the launcher, so that no Node process stays between an editor and
// rejoin. Where that fails, or scripts are not run, the launcher still works.

const fs = require("node:fs");
const path = require("node:path");
const find = require("./find.js");

// Windows starts what npm writes, which needs a script.
if (process.platform !== "win32") {
  const launcher = path.join(__dirname, "bin", "rejoin");
  const next = `${launcher}.new`;
  try {
    const binary = find();
    fs.rmSync(next, { force: true });
    try {
      fs.linkSync(binary, next);
    } catch {
      fs.copyFileSync(binary, next);
    }
    fs.chmodSync(next, 0o755);
    fs.renameSync(next, launcher);
  } catch (error) {
    fs.rmSync(next, { force: true });
    console.warn(error.message);
  }
}
