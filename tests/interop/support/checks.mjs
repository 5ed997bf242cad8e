// Names what is checked, prints how it went, ends with the right exit code.

let failed = 0;

/** Runs one check. The next one runs even if this one fails. */
export async function check(name, body) {
  try {
    await body();
    console.log(`ok - ${name}`);
    return true;
  } catch (error) {
    failed += 1;
    process.exitCode = 1;
    console.log(`not ok - ${name}\n${indent(error.stack ?? String(error))}`);
    return false;
  }
}

/** Runs one step of a story. If it fails, the rest of the story makes no sense. */
export async function step(name, body) {
  if (!(await check(name, body))) finish();
}

/** Ends the process: agents that a failed check left behind shall not keep it alive. */
export function finish() {
  process.exit(failed === 0 ? 0 : 1);
}

/** The promise's value, or an error that names what was waited for. */
export function within(seconds, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${seconds} s for ${what}`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function indent(text) {
  return text.replace(/^/gm, "    ");
}
