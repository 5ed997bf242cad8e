// The agents that are driven: how each is started with the model server and an empty home.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the agents are installed: beside this file, or where `AGENT_MODULES` says. */
const modules = process.env.AGENT_MODULES ?? fileURLToPath(new URL("node_modules", import.meta.url));
const machine = `${process.platform}-${process.arch}`;
const node = process.execPath;
const script = (path) => [node, join(modules, path)];

const codexConfig = (policy) => (url, cwd) => ({
  ".codex/config.toml": `
model = "fake-model"
model_provider = "fake"
approval_policy = "${policy}"
sandbox_mode = "danger-full-access"
model_context_window = 10000000
model_reasoning_summary = "detailed"
[model_providers.fake]
name = "Fake"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
requires_openai_auth = false
supports_websockets = false
[projects."${cwd}"]
trust_level = "trusted"
`,
});

/** By name: the command, and of (url, cwd) the files in its home; what else it needs. */
export const AGENTS = {
  claude: {
    command: script("@agentclientprotocol/claude-agent-acp/dist/index.js"),
    env: { IS_SANDBOX: "1" },
    // Whether a subagent asks before it writes a file.
    asks: true,
  },
  gemini: {
    command: [...script("@google/gemini-cli/bundle/gemini.js"), "--acp"],
    authenticate: "gemini-api-key",
    // It takes no error as an answer to its question whether a file is there.
    reads: false,
    files: () => ({
      ".gemini/settings.json": {
        security: { auth: { selectedType: "gemini-api-key" } },
        telemetry: { enabled: false },
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
        privacy: { usageStatisticsEnabled: false },
      },
    }),
  },
  "codex-zed": {
    command: [join(modules, `@zed-industries/codex-acp-${machine}/bin/codex-acp`)],
    files: codexConfig("untrusted"),
  },
  opencode: {
    command: [join(modules, `opencode-${machine}${process.arch === "x64" ? "-baseline" : ""}/bin/opencode`), "acp"],
    env: { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" },
    files: (url) => ({
      ".config/opencode/opencode.json": {
        autoupdate: false,
        share: "disabled",
        model: "fake/fake-model",
        small_model: "fake/fake-model",
        permission: { edit: "ask" },
        provider: {
          fake: {
            npm: "@ai-sdk/openai-compatible",
            name: "Fake",
            options: { baseURL: `${url}/v1`, apiKey: "x" },
            models: {
              "fake-model": {
                name: "Fake",
                tool_call: true,
                reasoning: true,
                attachment: true,
                modalities: { input: ["text", "image"], output: ["text"] },
                limit: { context: 10_000_000, output: 8000 },
              },
            },
          },
        },
      },
    }),
  },
  codex: {
    command: script("@agentclientprotocol/codex-acp/dist/index.js"),
    files: codexConfig("on-request"),
  },
  qwen: {
    command: [...script("@qwen-code/qwen-code/cli-entry.js"), "--acp"],
    files: () => ({
      ".qwen/settings.json": {
        security: { auth: { selectedType: "openai" } },
        model: { name: "fake-model" },
        telemetry: { enabled: false },
        general: { disableAutoUpdate: true },
        $version: 4,
      },
    }),
  },
  kimi: {
    command: [...script("@moonshot-ai/kimi-code/dist/main.mjs"), "acp"],
    files: (url) => ({
      ".kimi-code/config.toml": `
default_model = "fake"
[providers.fake]
type = "openai"
base_url = "${url}/v1"
api_key = "x"
[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 10000000
capabilities = ["thinking","tool_use","image_in"]
`,
    }),
  },
};

/** The programs for the terminal, and how they are started. */
export const PROGRAMS = {
  claude: ["claude", join(modules, `@anthropic-ai/claude-agent-sdk-${machine}/claude`)],
  codex: ["codex", ...script("@openai/codex/bin/codex.js")],
  gemini: ["gemini", ...script("@google/gemini-cli/bundle/gemini.js")],
  kimi: ["kimi", ...script("@moonshot-ai/kimi-code/dist/main.mjs")],
  opencode: ["opencode", AGENTS.opencode.command[0]],
  qwen: ["qwen", ...script("@qwen-code/qwen-code/cli-entry.js")],
};

/** The environment of an agent that lives in `folder`, whose processes can be found by `marker`. */
export function environment(agent, folder, url, marker) {
  const home = join(folder, "home");
  const [name, value] = marker.split("=");
  return {
    PATH: `${dirname(node)}:/usr/local/bin:/usr/bin:/bin`,
    LANG: "C.UTF-8",
    HOME: home,
    TMPDIR: join(folder, "tmp"),
    XDG_CONFIG_HOME: join(home, ".config"),
    XDG_DATA_HOME: join(home, ".local/share"),
    XDG_STATE_HOME: join(home, ".local/state"),
    XDG_CACHE_HOME: join(home, ".cache"),
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: "x",
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_API_KEY: "x",
    GOOGLE_GEMINI_BASE_URL: url,
    GEMINI_API_KEY: "x",
    DISABLE_TELEMETRY: "1",
    DISABLE_AUTOUPDATER: "1",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    ...agent.env,
    [name]: value,
  };
}

/** Makes the folder that an agent lives in, with its settings. Returns where it works. */
export function furnish(agent, folder, url) {
  const cwd = join(folder, "project");
  for (const name of ["home", "tmp", "project"]) mkdirSync(join(folder, name), { recursive: true });
  for (const [path, content] of Object.entries(agent.files?.(url, cwd) ?? {})) {
    const file = join(folder, "home", path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  }
  return cwd;
}
