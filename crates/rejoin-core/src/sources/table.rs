//! The tools whose conversations can be read.

use std::path::PathBuf;

use super::deletion::no_rule_of_file;
use super::{
    FileReader, FoundConversation, PromptHistory, SETTINGS, Source, SourceReader, ToolDeletion,
    amp, antigravity, claude_code, cline, cline_tasks, codex, copilot, crush, cursor, droid,
    gemini, goose, grok, hermes, kimi, kimi_cli, kiro, opencode, openhands, pi, qwen, vibe, vscode,
    zed,
};

/// The reader of tasks in editors.
const TASKS: FileReader = FileReader {
    others: |found, _, _| Some(cline_tasks::others(found)),
    depth: 1,
    ..FileReader::new(cline_tasks::is_conversation, cline_tasks::read)
};

/// The reader of sessions of pi, whose subagents are further down.
const PI: FileReader = FileReader {
    others: |found, bytes, _| Some(pi::others(found, bytes)),
    links: Some(pi::LINKS),
    depth: 1,
    ..FileReader::new(pi::is_conversation, pi::read)
};

/// The other files of a conversation whose words are put together from parts.
fn of_parts(_: &FoundConversation, _: &[u8], _: bool) -> Option<Vec<PathBuf>> {
    None
}

/// All of them, in the order of their names.
pub static SOURCES: [Source; 28] = [
    Source {
        name: "amp",
        agent: "Amp",
        variables: &["XDG_DATA_HOME"],
        roots: |places| vec![amp::root(places)],
        reader: SourceReader::Files(FileReader {
            depth: 0,
            ..FileReader::new(amp::is_conversation, amp::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "antigravity",
        agent: "Antigravity CLI",
        variables: &[],
        roots: |places| vec![antigravity::root(places)],
        reader: SourceReader::Files(FileReader {
            depth: 3,
            ..FileReader::new(antigravity::is_conversation, antigravity::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "claude-code",
        agent: "claude-agent-acp",
        variables: &["CLAUDE_CONFIG_DIR"],
        roots: |places| vec![claude_code::root(places)],
        reader: SourceReader::Files(FileReader {
            others: |found, bytes, is_marked| Some(claude_code::others(found, bytes, is_marked)),
            marks: &claude_code::MARKS,
            links: Some(claude_code::LINKS),
            ..FileReader::new(claude_code::is_conversation, claude_code::read)
        }),
        deletion: Some(ToolDeletion {
            rule: claude_code::deletion_rule,
            of_file: claude_code::deletion_rule_of_file,
            everywhere: true,
        }),
        prompts: Some(PromptHistory {
            file: claude_code::prompt_history,
            prompt: claude_code::history_prompt,
        }),
        pins: None,
    },
    Source {
        name: "cline",
        agent: "cline",
        variables: &[
            "CLINE_DIR",
            "CLINE_DATA_DIR",
            "CLINE_SESSION_DATA_DIR",
            "XDG_CONFIG_HOME",
            "APPDATA",
        ],
        roots: cline::roots,
        reader: SourceReader::Files(FileReader {
            state: cline::state,
            others: |found, _, _| Some(cline::others(found)),
            depth: 1,
            ..FileReader::new(cline::is_conversation, cline::read)
        }),
        deletion: None,
        prompts: None,
        pins: Some(cline::pins),
    },
    Source {
        name: "codex",
        agent: "codex-acp",
        variables: &["CODEX_HOME"],
        roots: |places| vec![codex::root(places)],
        reader: SourceReader::Files(FileReader {
            others: codex::others,
            choose: codex::choose,
            marks: &codex::MARKS,
            links: Some(codex::LINKS),
            ..FileReader::new(codex::is_conversation, codex::read)
        }),
        deletion: None,
        prompts: Some(PromptHistory {
            file: codex::prompt_history,
            prompt: codex::history_prompt,
        }),
        pins: Some(codex::pins),
    },
    Source {
        name: "copilot",
        agent: "Copilot",
        variables: &["COPILOT_HOME"],
        roots: |places| vec![copilot::root(places)],
        reader: SourceReader::Files(FileReader::new(copilot::is_conversation, copilot::read)),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "crush",
        agent: "Crush",
        variables: &["CRUSH_GLOBAL_DATA", "XDG_DATA_HOME", "LOCALAPPDATA"],
        roots: |places| vec![crush::root(places)],
        reader: SourceReader::Database {
            find: crush::find,
            read: crush::read,
        },
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "cursor",
        agent: "cursor",
        variables: &[],
        roots: |places| vec![cursor::root(places)],
        reader: SourceReader::Files(FileReader {
            others: of_parts,
            depth: 3,
            ..FileReader::new(cursor::is_conversation, cursor::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "droid",
        agent: "@factory/cli",
        variables: &["FACTORY_HOME_OVERRIDE"],
        roots: |places| vec![droid::root(places)],
        reader: SourceReader::Files(FileReader {
            state: |path| Some(droid::state(path)),
            others: droid::others,
            marks: &droid::MARKS,
            depth: 1,
            ..FileReader::new(droid::is_conversation, droid::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "gemini",
        agent: "gemini-cli",
        variables: &[
            "GEMINI_CLI_HOME",
            gemini::SYSTEM_SETTINGS,
            gemini::SYSTEM_DEFAULTS,
        ],
        roots: |places| vec![gemini::root(places)],
        reader: SourceReader::Files(FileReader {
            others: gemini::others,
            marks: &gemini::MARKS,
            ..FileReader::new(gemini::is_conversation, gemini::read)
        }),
        deletion: Some(ToolDeletion {
            rule: gemini::deletion_rule,
            of_file: no_rule_of_file,
            everywhere: false,
        }),
        prompts: None,
        pins: None,
    },
    Source {
        name: "goose",
        agent: "goose",
        variables: &["GOOSE_PATH_ROOT", "XDG_DATA_HOME", "APPDATA"],
        roots: |places| vec![goose::root(places)],
        reader: SourceReader::Database {
            find: goose::find,
            read: goose::read,
        },
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "grok",
        agent: "grok",
        variables: &["GROK_HOME"],
        roots: |places| vec![grok::root(places)],
        reader: SourceReader::Files(FileReader {
            state: |path| Some(grok::state(path)),
            others: of_parts,
            depth: 2,
            ..FileReader::new(grok::is_conversation, grok::read)
        }),
        deletion: Some(ToolDeletion {
            rule: grok::deletion_rule,
            of_file: no_rule_of_file,
            everywhere: true,
        }),
        prompts: None,
        pins: None,
    },
    Source {
        name: "hermes",
        agent: "hermes-agent",
        variables: &["HERMES_HOME", "LOCALAPPDATA"],
        roots: |places| vec![hermes::root(places)],
        reader: SourceReader::Database {
            find: hermes::find,
            read: hermes::read,
        },
        deletion: None,
        prompts: None,
        pins: Some(hermes::pins),
    },
    Source {
        name: "kilo",
        agent: "Kilo",
        variables: &["XDG_DATA_HOME", "XDG_STATE_HOME"],
        roots: |places| vec![opencode::kilo_root(places)],
        reader: SourceReader::Database {
            find: opencode::find,
            read: opencode::read,
        },
        deletion: None,
        prompts: None,
        pins: Some(opencode::kilo_pins),
    },
    Source {
        name: "kilo-code",
        agent: "Kilo Code",
        variables: SETTINGS,
        roots: |places| cline_tasks::roots(places, "kilocode.kilo-code"),
        reader: SourceReader::Files(TASKS),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "kimi",
        agent: "Kimi Code CLI",
        variables: &["KIMI_CODE_HOME"],
        roots: |places| vec![kimi::root(places)],
        reader: SourceReader::Files(FileReader {
            state: kimi::state,
            others: of_parts,
            ..FileReader::new(kimi::is_conversation, kimi::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "kimi-cli",
        agent: "Kimi Code CLI",
        variables: &["KIMI_SHARE_DIR"],
        roots: |places| vec![kimi_cli::root(places)],
        reader: SourceReader::Files(FileReader {
            state: kimi_cli::state,
            others: of_parts,
            ..FileReader::new(kimi_cli::is_conversation, kimi_cli::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "kiro",
        agent: "Kiro CLI",
        variables: &["KIRO_HOME"],
        roots: kiro::roots,
        reader: SourceReader::Files(FileReader {
            state: |path| Some(kiro::state(path)),
            others: |found, _, _| Some(kiro::others(found)),
            depth: 2,
            ..FileReader::new(kiro::is_conversation, kiro::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "omp",
        agent: "oh-my-pi",
        variables: &["XDG_DATA_HOME"],
        roots: pi::omp_roots,
        reader: SourceReader::Files(PI),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "openclaude",
        agent: "OpenClaude",
        variables: &["OPENCLAUDE_CONFIG_DIR"],
        roots: |places| vec![claude_code::open_claude_root(places)],
        reader: SourceReader::Files(FileReader {
            others: |found, bytes, is_marked| Some(claude_code::others(found, bytes, is_marked)),
            marks: &claude_code::MARKS,
            links: Some(claude_code::LINKS),
            ..FileReader::new(claude_code::is_conversation, claude_code::read)
        }),
        deletion: Some(ToolDeletion {
            rule: claude_code::open_claude_rule,
            of_file: no_rule_of_file,
            everywhere: true,
        }),
        prompts: None,
        pins: None,
    },
    Source {
        name: "opencode",
        agent: "OpenCode",
        variables: &["OPENCODE_DB", "XDG_DATA_HOME", "XDG_STATE_HOME"],
        roots: |places| vec![opencode::root(places)],
        reader: SourceReader::Database {
            find: opencode::find,
            read: opencode::read,
        },
        deletion: None,
        prompts: None,
        pins: Some(opencode::pins),
    },
    Source {
        name: "openhands",
        agent: "OpenHands",
        variables: &["OPENHANDS_CONVERSATIONS_DIR", "OPENHANDS_PERSISTENCE_DIR"],
        roots: |places| vec![openhands::root(places)],
        reader: SourceReader::Files(FileReader {
            state: |path| Some(openhands::state(path)),
            others: |found, _, _| Some(openhands::others(found)),
            depth: 1,
            ..FileReader::new(openhands::is_conversation, openhands::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "pi",
        agent: "pi-acp",
        variables: &["PI_CODING_AGENT_DIR"],
        roots: |places| vec![pi::root(places)],
        reader: SourceReader::Files(PI),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "qwen",
        agent: "qwen-code",
        variables: &["QWEN_HOME", "QWEN_RUNTIME_DIR"],
        roots: |places| vec![qwen::root(places)],
        reader: SourceReader::Files(FileReader {
            others: qwen::others,
            links: Some(qwen::LINKS),
            ..FileReader::new(qwen::is_conversation, qwen::read)
        }),
        deletion: None,
        prompts: None,
        pins: Some(qwen::pins),
    },
    Source {
        name: "roo-code",
        agent: "Roo Code",
        variables: SETTINGS,
        roots: |places| cline_tasks::roots(places, "rooveterinaryinc.roo-cline"),
        reader: SourceReader::Files(TASKS),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "vibe",
        agent: "@mistralai/mistral-vibe",
        variables: &["VIBE_HOME"],
        roots: |places| vec![vibe::root(places)],
        reader: SourceReader::Files(FileReader {
            state: |path| Some(vibe::state(path)),
            others: |found, _, _| Some(vibe::others(found)),
            depth: 1,
            ..FileReader::new(vibe::is_conversation, vibe::read)
        }),
        deletion: None,
        prompts: None,
        pins: None,
    },
    Source {
        name: "vscode",
        agent: "Copilot Chat",
        variables: SETTINGS,
        roots: vscode::roots,
        reader: SourceReader::Files(FileReader {
            others: |found, _, _| Some(vscode::workspace(found).into_iter().collect()),
            depth: 2,
            ..FileReader::new(vscode::is_conversation, vscode::read)
        }),
        deletion: None,
        prompts: None,
        pins: Some(vscode::pins),
    },
    Source {
        name: "zed",
        agent: "Zed",
        variables: &["XDG_DATA_HOME", "LOCALAPPDATA"],
        roots: |places| vec![zed::root(places)],
        reader: SourceReader::Database {
            find: zed::find,
            read: zed::read,
        },
        deletion: None,
        prompts: None,
        pins: None,
    },
];
