#!/usr/bin/env node
"use strict";

// Starts the binary where the install script could not put it here.

const { spawn } = require("node:child_process");
const find = require("../find.js");

let binary;
try {
  binary = find();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
const args = process.argv.slice(2);
if (process.execve) {
  // The binary takes the place of this process.
  process.execve(binary, [binary, ...args], process.env);
}
const child = spawn(binary, args, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`rejoin: cannot start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
