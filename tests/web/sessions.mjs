// The conversations that the tests look at.
import { Log, text } from "./log.mjs";

/** A drawing: a line over a grid. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAUAAAAB4CAIAAAAMrLyJAAAFkElEQVR42u3dwY7cNgyAYZ/7kj31lXMs0FfIobkmQIEi2M1uPBYpkdIHOLfN/GOa/9iWKOr65+8vDsc5xx9//fn+6Hs6149/3/79Ov/AxZ3M/aW6b45250tg3P25d9Qd1JjAuLgp3DtyjjtMYFzcYO4DJx9rTGBc3EjuyO30wf8lMC5uGHd8XOrVTyAwLm4Md3xI+b3GBJZYuDOOQHtf+kAC4+KWs/f+xxIYFzfGtCWfTGBc3ADH8rifO0xgXNwAu1K5nzhMYFzcgHfUCQL/0mEC4+IGSJXN/chhAuPiBjzWTuASWELjZrm0N5fAuPtw194J59/50wV+aWmlhA4P6VFxXv4uupXADxZJEzg8pAcKXGH0u7fAj3sdEDg8pOcIXGc+ds70VZbAI70OCBwe0kMELvVq9nNbvE4CD/Y6IHBGSAm8ZQlnvMAhvQ4IHB7SUhVCSdyaTxx5iyjiBZ7f62B7gVNDupPAld/5V+XzawJHibfQ4WoJnR1SAhM4ONUyPq2pwBPaR2wjcPHWNv+38ikqcHiq/dx87EyBU9tHbCZwl3nv+fl8S+CMVHvT/vM0gVMfQPabriNwgMBJF3jys3QpgTcuMAgv0e1yfSc7fN3czW3OhnFHbZAnpEVi1fo7X3fmJ7s/Up75C71wri4wzl22OHm/pcv6R+jUDPhoUGdvgSdL1V3gvquvpkX+yp6ffDCtsr3AJ8xPjse51y6Bq25IvxF4VWHDlgKvmvduOt9O4OcCL7wTLrnz730nXPIyHLJMdY9CndkCL38X3U/g5bXfvQQe+bY1S2XPEnjm6Pc5g0mNCmYI/FzgaZf55vrYDQSus3yyRcHM4Jcsu9pshsClLvAeApeqiKov8Pg3rLze+yyBs0s4DxS41BNW0khB8YYNiQLXfEfKW0Qx+dX3tOmNx40itlltNifsV/FRyr4Cl13WV1ngbRarTHP4qj/NkLEO+WSBC1a8BX6fFl1HgwWuX6nT7gLXb21Tp+Kt6Q/0iMCB53u1qJXtJXCL5nJFBE7q9FI5n2NP+epS7N7oHalLd8jlFW+pnV7q35BCTvxqtNysxShlr/7MCyvekmZW2u19lbKYgcDhVUQEnjMv2i6fB4Nwddxuk8CtK94mN4qon88joei3wXfZWtm+exTNfJTddbnoYD4/DgiBJ603qi9w9mDSnO04OnbhfByZH39/9T1hAnepeHuw8eJRAj9z+L8/vlqfcJELvMdG23k7b8zcCqtvH+ybsXrzN1f3X6zlF7j+nj2rCmYmq9td4I80/uRo+Q48mG0ZW34Q+HOBO4q0kHvf3t4CfyvQN7jLnj1LKt7s/5xhcvtR6MGEO3bPns0q3nAJ3PWHo0WFEIEJXPdO+CDFVbwROEtg+/2dsGWec9zyuHbaAHrOaHD3LT9aF8zgbvgI/ZLDtvyY8zJMYAKnJJyEblowg7u/wHcSbtWqkQ1K/IhE4HnL+mLX5Y7PrGxQMLPxqDuBa53wJwlnXnSOwwQmcErC2TFgjsMEJnBKwq3qHmi6jsAEHioHf4kbvg5uv+m61g0MCNzmhN8k3P12p6c1HI91mMAETlyWNfJnEutOrAhM4PSc++1qaYk1ElICE3iBwxIrKqQEJnAWd37CHTXWQGAC4+LiEhgXl8ACjYtLYBcYF5fAuLi4BMbFJbBA4+ISGBcXl8C4uAQWaFxcAgs0Li6BcXFxCYyLS2CBxsUlsAuMixspsMPhsDuhX0pcXI/QuLi4BMbFJbBA4+ISWKBxcQmMi4tLYFxcAgs0Li6BcXFxCYyLS2CBxsUlsEDj4hIYFxeXwLi4BBZoXFwCu8C4uATGxcUlMC4ugQUaF5fAuLi4BMbFJbBA4+ISWKBxcQmMi4tLYFxcAgs0Li6BXWBcXALj4uISGBe3M/c7A7yTW3sXszIAAAAASUVORK5CYII=";

/** What a working day looks like. Has every kind of update of version 1. */
export function everyKind() {
  const log = new Log(1);
  log.prompt(
    "Redis keeps timing out under load. Please:\n1. find out **why**,\n2. fix it in `src/cache/pool.ts`,\n3. add a test.",
    { type: "resource_link", name: "pool.ts", uri: "file:///home/ada/projects/cache/src/cache/pool.ts" },
    { type: "image", mimeType: "image/png", data: PNG },
  );
  log.thinks("The timeouts begin when the pool is exhausted. I should look at how connections are returned, and whether an error path leaks one of them.\n\nThe test needs a server that never answers.");
  const steps = (...status) =>
    ["Find the cause of the timeouts", "Return connections on every path", "Add a test with a server that never answers"]
      .map((content, i) => ({ content, priority: i ? "medium" : "high", status: status[i] }));
  log.update("plan", { entries: steps("in_progress", "pending", "pending") });
  log.says("I will look at the pool first.");
  log.call("read", {
    kind: "read", title: "Read /home/ada/projects/cache/src/cache/pool.ts", locations: [{ path: "src/cache/pool.ts", line: 41 }],
    rawInput: { path: "src/cache/pool.ts" },
    content: [text("export class Pool {\n\tasync use<T>(work: (connection: Connection) => Promise<T>) {\n\t\tconst connection = await this.take();\n\t\tconst result = await work(connection);\n\t\tthis.give(connection);\n\t\treturn result;\n\t}\n}\n")],
  });
  log.call("search", { kind: "search", title: "Search for `.take(`", content: [text("src/cache/pool.ts:42\nsrc/cache/health.ts:17")], seconds: 1 });
  log.says("Found it: if `work` throws, the connection is **never given back**. After ten errors the pool is empty, and each request waits until its timeout.\n\n| errors | free connections |\n|---:|---:|\n| 0 | 10 |\n| 9 | 1 |\n| 10 | 0 |\n\nSee <https://redis.io/docs/latest/develop/clients/pools-and-muxing/> for what a pool should do.");
  log.update("plan", { entries: steps("completed", "in_progress", "pending") });
  log.call("edit", {
    kind: "edit", title: "Edit src/cache/pool.ts", seconds: 4,
    content: [{
      type: "diff", path: "src/cache/pool.ts",
      oldText: "export class Pool {\n\tasync use<T>(work: (connection: Connection) => Promise<T>) {\n\t\tconst connection = await this.take();\n\t\tconst result = await work(connection);\n\t\tthis.give(connection);\n\t\treturn result;\n\t}\n}\n",
      newText: "export class Pool {\n\tasync use<T>(work: (connection: Connection) => Promise<T>) {\n\t\tconst connection = await this.take();\n\t\ttry {\n\t\t\treturn await work(connection);\n\t\t} finally {\n\t\t\tthis.give(connection);\n\t\t}\n\t}\n}\n",
    }],
  });
  log.call("test", {
    kind: "execute", title: "npm test -- pool", status: "failed", seconds: 73, rawInput: { command: "npm test -- pool" },
    content: [text("\x1b[1m> cache@2.1.0 test\x1b[0m\n\n \x1b[31m✗\x1b[0m pool gives connections back \x1b[2m(5003 ms)\x1b[0m\n   \x1b[31mError: timed out\x1b[0m\n     at \x1b[36msrc/cache/pool.test.ts:12:9\x1b[0m\n\n \x1b[42;30m PASS \x1b[0m 11  \x1b[41;97m FAIL \x1b[0m 1")],
    rawOutput: { exitCode: 1 },
  });
  log.update("subagent_update", { sessionId: "child", title: "Review of the test", description: "Looks at the test with fresh eyes.", state: { state: "running" } });
  log.update("tool_call", { toolCallId: "task", kind: "think", title: "Ask a reviewer", status: "in_progress", content: [{ type: "session", sessionId: "child" }] });
  const child = (update) => log.record("subagent", { sessionId: "child", update });
  child({ sessionUpdate: "user_message_chunk", content: { type: "text", text: "Why does the new test time out?" } });
  child({ sessionUpdate: "tool_call", toolCallId: "r", title: "Read src/cache/pool.test.ts", kind: "read", status: "completed", content: [text("// uses real timers")] });
  child({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "It uses real timers. Replace them with `vi.useFakeTimers()`." } });
  log.update("subagent_update", { sessionId: "child", state: { state: "idle" } });
  log.update("tool_call_update", { toolCallId: "task", status: "completed" });
  log.says("The reviewer is right; with fake timers the test passes.\n\n```ts\nvi.useFakeTimers();\nawait expect(pool.use(fail)).rejects.toThrow(\"timed out\");\n```\n\n- [x] cause found\n- [x] fixed\n- [x] tested");
  log.update("plan", { entries: steps("completed", "completed", "completed") });
  log.record("info", { sessionUpdate: "session_info_update", title: "Redis timeouts under load" });
  log.end();
  log.wait(3600 * 26);
  log.prompt("Can you also bump the version and write the changelog?");
  log.update("compaction_update", { compactionId: "c", status: "in_progress" });
  log.update("compaction_summary_chunk", { compactionId: "c", content: { type: "text", text: "The pool leaked connections; `finally` fixes it." } });
  log.update("compaction_update", { compactionId: "c", status: "completed" });
  log.update("tool_call", { toolCallId: "fetch", kind: "fetch", title: "Fetch https://keepachangelog.com", status: "pending" });
  log.update("tool_call", { toolCallId: "move", kind: "move", title: "Move CHANGES to CHANGELOG.md", status: "completed" });
  log.update("tool_call", { toolCallId: "delete", kind: "delete", title: "Delete old.txt", status: "completed", content: [{ type: "terminal", terminalId: "gone" }] });
  log.update("tool_call", { toolCallId: "mode", kind: "switch_mode", title: "Ready to code?", status: "completed" });
  log.update("tool_call", { toolCallId: "other", kind: "other", title: "mcp__tracker__create_issue", name: "create_issue", status: "completed", rawOutput: "created #12" });
  log.update("plan_update", { plan: { type: "markdown", planId: "p", content: "1. bump\n2. write" } });
  log.update("plan_removed", { planId: "p" });
  log.update("session_message", { messageId: "sm", senderSessionId: "child", content: [{ type: "text", text: "The test is fine now." }] });
  log.update("session_message_chunk", { messageId: "sm", content: { type: "text", text: " Well done." } });
  log.update("agent_message_chunk", { messageId: "attached", content: { type: "resource", resource: { uri: "file:///home/ada/CHANGELOG.md", mimeType: "text/markdown", text: "## 2.1.1\n- Connections are always given back.\n" } } });
  log.update("agent_message_chunk", { messageId: "attached", content: { type: "audio", mimeType: "audio/wav", data: "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=" } });
  log.update("_vendor_event", { answer: 42 });
  log.update("available_commands_update", { availableCommands: [] });
  log.update("current_mode_update", { currentModeId: "code" });
  log.update("config_option_update", { configOptions: [{ id: "model", category: "model", type: "select", name: "Model", currentValue: "sonnet-5", options: [] }] });
  log.record("info", { sessionUpdate: "usage_update", used: 48211, size: 200000, cost: { amount: 1.8342, currency: "USD" } });
  log.end({ stopReason: "cancelled" });
  log.prompt("Go on, please.");
  log.says("I will go on with the changelog.");
  log.end({ error: { code: -32603, message: "the model is overloaded" } });
  log.prompt("Again?");
  log.says("Yes: I am");
  log.end({ interrupted: "the process ended during the turn" });
  log.prompt("And now?");
  return log;
}

/** The updates of an agent of version 2, as its log has them. */
export function version2() {
  const log = new Log(2, { format: 2, engine: "codex" });
  log.prompt("Use version 2.");
  log.update2("user_message", { messageId: "u", content: [{ type: "text", text: "Use version 2." }] });
  log.update2("agent_thought", { messageId: "t", content: [{ type: "text", text: "A whole thought." }] });
  log.update2("agent_thought_chunk", { messageId: "t2", content: { type: "text", text: "A part of a thought." } });
  log.update2("agent_message", { messageId: "m", content: [{ type: "text", text: "A whole message." }] });
  log.update2("agent_message_chunk", { messageId: "m2", content: { type: "text", text: "A part of a message." } });
  log.update2("tool_call_update", { toolCallId: "c", title: "Run a command", kind: "execute", status: "in_progress", content: [] });
  log.update2("tool_call_content_chunk", { toolCallId: "c", content: text("Content in a chunk.") });
  log.update2("terminal_update", { terminalId: "term", command: "make" });
  log.update2("tool_call_content_chunk", { toolCallId: "c", content: { type: "terminal", terminalId: "term" } });
  log.update2("terminal_output_chunk", { terminalId: "term", data: Buffer.from("output of a terminal\n").toString("base64") });
  log.update2("terminal_update", { terminalId: "term", exitStatus: { exitCode: 0 } });
  log.update2("tool_call_update", { toolCallId: "c", status: "completed" });
  log.update2("plan_update", { plan: { type: "items", planId: "p", entries: [{ content: "A step of version 2", priority: "low", status: "pending" }] } });
  log.update2("compaction_update", { compactionId: "k", status: "completed", summary: [{ type: "text", text: "A short context." }] });
  log.update2("notice", { severity: "warning", title: "A notice" });
  log.update2("config_option_update", { configOptions: [] });
  log.update2("available_commands_update", { availableCommands: [] });
  log.update2("session_info_update", { title: "Version 2" });
  log.update2("usage_update", { used: 1, size: 10 });
  log.update2("subagent_update", { sessionId: "kid", title: "A subagent of version 2" });
  log.record("subagent_v2", { sessionId: "kid", update: { sessionUpdate: "agent_message", messageId: "km", content: [{ type: "text", text: "The subagent says this." }] } });
  log.update2("session_message", { messageId: "x", senderSessionId: "kid", content: [{ type: "text", text: "A letter." }] });
  log.update2("state_update", { state: "idle", stopReason: "end_turn" });
  log.end();
  return log;
}

/** Everything that could become markup, a script or a command for the terminal. */
export function hostile() {
  const log = new Log(3, { cwd: "/srv/<b>x</b>", engine: "</title><script>owned()</script>" });
  const attacks = [
    "</script><script>owned()</script>",
    "<img src=x onerror=owned()>",
    "<!--<script>",
    "<svg onload=owned()>",
    "[click](javascript:owned())",
    "[click](JaVaScRiPt&colon;owned())",
    "[click](data:text/html,<script>owned()</script>)",
    "[click](vbscript:owned())",
    "![picture](javascript:owned())",
    "![picture](data:image/svg+xml,<svg onload=owned()>)",
    "![from the network](http://127.0.0.1:9/picture.png)",
    "<a href='javascript:owned()'>click</a>",
    "<iframe srcdoc='<script>owned()</script>'></iframe>",
    "<style>body{display:none}</style><meta http-equiv=refresh content=0;url=http://127.0.0.1:9>",
    "<base href=http://127.0.0.1:9><form action=http://127.0.0.1:9><button>x</button></form>",
    "\x1b]8;;javascript:owned()\x1b\\link\x1b]8;;\x1b\\ \x1b]0;title\x07 \x1b[2J\x9b31m \x00",
    "`<script>owned()</script>`\n\n```html\n<script>owned()</script>\n```",
    "{{constructor.constructor('owned()')()}} ${owned()} @DATA@ @TITLE@",
  ];
  log.record("info", { sessionUpdate: "session_info_update", title: "</title><script>owned()</script>" });
  for (const [i, attack] of attacks.entries()) {
    log.prompt(attack, { type: "resource_link", name: attack, uri: "javascript:owned()" });
    log.thinks(attack);
    log.says(attack);
    log.call(`c${i}`, {
      kind: attack, title: attack, locations: [{ path: attack }], rawInput: { [attack]: attack },
      content: [
        text(attack),
        { type: "diff", path: attack, oldText: attack, newText: `${attack}${attack}` },
        { type: "content", content: { type: "image", mimeType: "image/svg+xml", data: "x\" onerror=\"owned()" } },
        { type: "content", content: { type: "resource", resource: { uri: "javascript:owned()", text: attack } } },
        { type: attack },
      ],
    });
    log.update("plan", { entries: [{ content: attack, status: attack, priority: attack }] });
    log.update(attack, { attack });
    log.end({ error: { code: 1, message: attack } });
  }
  return log;
}

/** Ten thousand turns. */
export function long(turns = 10_000) {
  const log = new Log(4, { engine: "codex" });
  for (let i = 1; i <= turns; i++) {
    log.prompt(`Question ${i}: what is ${i} times seven, and which of the files in the project says so?`);
    log.thinks(`I know that ${i} times seven is ${i * 7}.`);
    log.call(`c${i}`, { kind: "search", title: `Search for ${i * 7}`, content: [text(`notes/${i}.md: ${i * 7}\n`.repeat(5))] });
    log.says(`It is **${i * 7}**. ${"The file says so in a sentence of some length. ".repeat(i % 9)}${i === 7777 ? "needle-in-the-haystack" : ""}`);
    log.end();
  }
  return log;
}
