// Builds the pages: one file each, with its script and its style inside, and a security policy that
// allows these two and nothing else. The program puts the title and the data in.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";

const here = (path) => new URL(path, import.meta.url).pathname;
const target = ["chrome111", "firefox114", "safari16.4"];

/** The names of agents for people, by all their names: as the program has them, the first agent of a name wins. */
const names = {};
for (const agent of JSON.parse(await readFile(here("../crates/rejoin-core/src/engine/agents.json"), "utf8"))) {
  const packages = [agent.npx, agent.uvx].filter(Boolean).map((name) => name.split("/").pop()).filter((name) => name !== "cli");
  const all = [agent.id, agent.name, agent.tool, agent.command, ...(agent.plain ?? []), ...(agent.names ?? []), ...packages];
  for (const name of all.filter(Boolean)) names[name.toLowerCase()] ??= agent.tool ?? agent.name;
}

const bundle = async (entry) => {
  const { outputFiles } = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    format: "iife",
    target,
    charset: "utf8",
    // Browsers know international host names.
    alias: { "punycode.js": here("src/punycode.ts") },
    legalComments: "none",
    define: { AGENT_NAMES: JSON.stringify(names) },
    write: false,
  });
  // In a script, a comment of HTML may only begin in a string or a pattern, where an escape is the same.
  return outputFiles[0].text.trim().replaceAll("<!--", "\\x3c!--");
};

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Parts of libraries under the MIT licence are in the bundle, which asks for their names. */
const notice = "<!-- Contains markdown-it, linkify-it, mdurl, uc.micro, entities (MIT, BSD-2-Clause) and diff (BSD-3-Clause). -->";

/** The pages, and what each of them says where scripts are not allowed. */
const PAGES = {
  page: "This page shows a conversation with a script of its own. Allow JavaScript to read it, or export it as Markdown.",
  stats: "This page shows statistics with a script of its own. Allow JavaScript to read them.",
};

const template = await readFile(here("src/template.html"), "utf8");
// The program embeds them from the package that writes them.
const pages = "../crates/rejoin-core/pages";
await mkdir(here(pages), { recursive: true });
for (const [name, noscript] of Object.entries(PAGES)) {
  const style = await bundle(`src/${name}.css`);
  const script = await bundle(`src/${name}.ts`);
  if (/<\/script/i.test(script) || /<\/style/i.test(style)) {
    throw new Error("the bundle would end its own element");
  }
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "img-src data:",
    "media-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
  const parts = { policy, style, script, notice, noscript };
  const page = template.replace(/\{\{(\w+)\}\}/g, (_, part) => parts[part]);
  await writeFile(here(`${pages}/${name}.html`), page);
  console.log(`${name}.html ${Buffer.byteLength(page)} bytes`);
}
