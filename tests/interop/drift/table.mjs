// Writes docs/tools.md from the results of a run: node table.mjs FOLDER DATE

import { existsSync, readFileSync } from "node:fs";
import { TOOLS, UNTRIED } from "./tools.mjs";

const [folder, date] = process.argv.slice(2);
const COLUMNS = ["prompts", "answers", "thoughts", "tool calls", "pictures", "subagents", "before a compaction", "forks", "list"];
const MARKS = { yes: "✓", none: "·", "not kept": "not kept" };
const cell = (text) => text.replaceAll("|", "\\|").replace(/\s+/g, " ");

const results = Object.keys(TOOLS).map((source) => {
  const file = `${folder}/${source}.json`;
  const result = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { packages: [], read: {}, unknown: {} };
  return { source, title: TOOLS[source].title, ...result };
});

const rows = results.map(({ title, read }) =>
  [title, ...COLUMNS.map((column) => (read[column] ? (MARKS[read[column]] ?? "**no**") : "?"))]);
const table = (head, rows) => [head, head.map(() => "---"), ...rows].map((row) => `| ${row.map(cell).join(" | ")} |`).join("\n");

const versions = results.map(({ title, source, packages, unknown }) => {
  const kinds = Object.entries(unknown).map(([kind, count]) => `\`${kind}\` (${count})`);
  return [title, `\`${source}\``, packages.map((name) => `\`${name.replace(" ", "` ")}`).join(", ") || "could not be tried", kinds.join(", ") || "none"];
});
const lost = results.flatMap(({ title, read }) => Object.entries(read)
  .filter(([, how]) => /^no(:|$)/.test(how)).map(([what, how]) => `- **${title}**, ${what}: ${cell(how.slice(0, 400))}`));
const titles = results.flatMap(({ title, read }) => read.title?.startsWith('"')
  ? [`- **${title}**: the tool's list has ${read.title.replace('" is "', '", rejoin\'s has "')}.`] : []);
const untried = Object.entries(UNTRIED).map(([source, [title, why]]) => `- ${title} (\`${source}\`): ${why}.`);

console.log(`# Tools whose conversations were read

Made by \`.ci/run drift\` on ${date}, and not by hand. Each tool was installed in its newest version from its registry and had a conversation, without rejoin, with the tests' model server. What rejoin then read of its files was compared with what the tool's own client had seen. The formats are described in [import.md](import.md).

${table(["tool", ...COLUMNS], rows)}

✓: everything that was seen was read. ·: the tool's client saw none of it in this conversation, or its client cannot ask for it. "Not kept": it is not in the tool's files. **no**: it was seen and not read. ?: the conversation did not get so far. "List" means that the tool's own list has as many conversations as rejoin's.

${table(["tool", "source", "packages", "unknown kinds of records"], versions)}
${lost.length > 0 ? `\nWhat was seen and not read:\n\n${lost.join("\n")}\n` : ""}${titles.length > 0 ? `\nTitles that differ:\n\n${titles.join("\n")}\n` : ""}
Read by rejoin, and not tried here:

${untried.join("\n")}`);
