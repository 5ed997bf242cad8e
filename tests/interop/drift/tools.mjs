// The tools whose newest versions are installed and tried, and how each is driven. As a program, the names
// of their sources, or the packages of the one that is named.

import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AGENTS } from "../agents/agents.mjs";

const modules = process.env.AGENT_MODULES ?? ".";
const platform = `${process.platform}-${process.arch}`;
const baseline = process.arch === "x64" ? "-baseline" : "";
const script = (path) => [process.execPath, join(modules, path)];
/** A program of a package of Python, or Python itself. */
const python = (program) => join(modules, "../python/bin", program);
/** The beginning of the names of packages of Python. */
const OF_PYTHON = "python:";

/**
 * By the name of the source: the tool's name for people, the packages to install, the one of them
 * whose version is the tool's, and the agent that is driven, as in agents.mjs.
 */
export const TOOLS = {
  "claude-code": {
    title: "Claude Code",
    packages: ["@anthropic-ai/claude-code", "@agentclientprotocol/claude-agent-acp"],
    agent: {
      ...AGENTS.claude,
      // Where it begins otherwise, a server decides what is allowed.
      mode: "default",
      env: {
        ...AGENTS.claude.env,
        CLAUDE_CODE_EXECUTABLE: join(modules, `@anthropic-ai/claude-code-${platform}/claude`),
      },
    },
  },
  codex: {
    title: "Codex",
    packages: ["@openai/codex", "@agentclientprotocol/codex-acp"],
    agent: { ...AGENTS.codex, env: { CODEX_PATH: join(modules, ".bin/codex") } },
  },
  copilot: {
    title: "Copilot CLI",
    packages: ["@github/copilot"],
    agent: {
      command: [join(modules, `@github/copilot-${platform}/copilot`), "--acp"],
      env: { COPILOT_OFFLINE: "true", COPILOT_AUTO_UPDATE: "false", COPILOT_MODEL: "fake-model" },
      // The model server's address is known only when it runs.
      variables: (url) => ({ COPILOT_PROVIDER_BASE_URL: `${url}/v1`, COPILOT_PROVIDER_API_KEY: "x" }),
    },
  },
  droid: {
    title: "Droid",
    packages: [`@factory/cli-${platform}${baseline}`],
    agent: {
      command: [join(modules, `@factory/cli-${platform}${baseline}/bin/droid`), "exec", "--output-format", "acp"],
      // Without a connection to its maker it takes a model of the user's own, and no account.
      env: { FACTORY_AIRGAP_ENABLED: "true", DROID_DISABLE_AUTO_UPDATE: "true" },
      files: (url) => ({
        ".factory/settings.json": {
          customModels: [{
            model: "fake-model",
            displayName: "Fake",
            baseUrl: `${url}/v1`,
            apiKey: "x",
            provider: "generic-chat-completion-api",
            maxOutputTokens: 1000,
          }],
          model: "custom:Fake-0",
          cloudSessionSync: false,
        },
      }),
    },
  },
  gemini: { title: "Gemini CLI", packages: ["@google/gemini-cli"], agent: AGENTS.gemini },
  hermes: {
    title: "Hermes",
    packages: [`${OF_PYTHON}hermes-agent[acp]`],
    agent: {
      command: [python("hermes-acp")],
      files: (url) => ({
        ".hermes/config.yaml": {
          model: { default: "fake-model", provider: "custom", base_url: `${url}/v1`, api_key: "x" },
        },
      }),
    },
  },
  kilo: {
    title: "Kilo CLI",
    packages: [`@kilocode/cli-${platform}${baseline}`],
    agent: {
      command: [join(modules, `@kilocode/cli-${platform}${baseline}/bin/kilo`), "acp"],
      env: { KILO_DISABLE_MODELS_FETCH: "1", KILO_DISABLE_LSP_DOWNLOAD: "1", KILO_DISABLE_SHARE: "1" },
      // A relative of OpenCode, with the same settings in another place.
      variables: (url) => ({ KILO_CONFIG_CONTENT: JSON.stringify(Object.values(AGENTS.opencode.files(url))[0]) }),
    },
  },
  kimi: { title: "Kimi Code", packages: ["@moonshot-ai/kimi-code"], agent: AGENTS.kimi },
  omp: {
    title: "Oh My Pi",
    packages: ["@oh-my-pi/pi-coding-agent", `@oven/bun-${platform}${baseline}`],
    agent: {
      command: [join(modules, `@oven/bun-${platform}${baseline}/bin/bun`), join(modules, "@oh-my-pi/pi-coding-agent/dist/cli.js"), "acp"],
      env: { PI_OFFLINE: "1" },
      files: (url) => ({
        ".omp/agent/models.yml": {
          providers: {
            fake: {
              baseUrl: `${url}/v1`,
              api: "openai-completions",
              apiKey: "x",
              models: [{ id: "fake-model", name: "Fake", reasoning: true, input: ["text", "image"], contextWindow: 1_000_000, maxTokens: 10_000 }],
            },
          },
        },
        ".omp/agent/config.yml": { modelRoles: { default: "fake/fake-model", smol: "fake/fake-model" } },
      }),
    },
  },
  opencode: { title: "OpenCode", packages: [`opencode-${platform}${baseline}`], agent: AGENTS.opencode },
  pi: {
    title: "pi",
    packages: ["@earendil-works/pi-coding-agent", "pi-acp"],
    agent: {
      command: script("pi-acp/dist/index.js"),
      env: { PI_ACP_PI_COMMAND: join(modules, ".bin/pi"), PI_SKIP_VERSION_CHECK: "1", PI_OFFLINE: "1" },
      files: (url) => ({
        ".pi/agent/models.json": {
          providers: {
            fake: {
              baseUrl: `${url}/v1`,
              api: "openai-completions",
              apiKey: "x",
              models: [{ id: "fake-model", reasoning: true, input: ["text", "image"], contextWindow: 10_000_000 }],
            },
          },
        },
        ".pi/agent/settings.json": { defaultProvider: "fake", defaultModel: "fake-model", quietStartup: true },
      }),
    },
  },
  qwen: { title: "Qwen Code", packages: ["@qwen-code/qwen-code"], agent: AGENTS.qwen },
};

/** Sources that are not tried, and why. */
export const UNTRIED = {
  amp: ["Amp", "its newer versions keep conversations on a server"],
  antigravity: ["Antigravity CLI", "it needs an account"],
  cline: ["Cline", "its agent needs an account"],
  crush: ["Crush", "it has no agent of the protocol"],
  cursor: ["Cursor", "it needs an account"],
  goose: ["Goose", "its program is in no package registry"],
  grok: ["Grok Build", "it needs an account"],
  "kilo-code": ["Kilo Code", "it is an extension of an editor"],
  "kimi-cli": ["kimi-cli", "its package needs a newer Python than the watch has"],
  kiro: ["Kiro CLI", "it needs an account"],
  openclaude: ["OpenClaude", "its program is in no package registry"],
  openhands: ["OpenHands", "its package needs a newer Python than the watch has"],
  "roo-code": ["Roo Code", "it is an extension of an editor"],
  vibe: ["Mistral Vibe", "its package needs a newer Python than the watch has"],
  vscode: ["Copilot Chat", "it is an extension of an editor"],
  zed: ["Zed", "it is an editor, with windows"],
};

/** The name of a package and its installed version. */
export function installed(name) {
  if (name.startsWith(OF_PYTHON)) {
    const own = name.slice(OF_PYTHON.length).replace(/\[.*/, "");
    const code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";
    return `${own} ${execFileSync(python("python"), ["-c", code, own], { encoding: "utf8" }).trim()}`;
  }
  const require = createRequire(join(modules, "x.js"));
  return `${name} ${require(join(modules, name, "package.json")).version}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , source] = process.argv;
  console.log((source ? TOOLS[source].packages : Object.keys(TOOLS)).join(" "));
}
