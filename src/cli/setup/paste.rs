//! Settings in Lua and Emacs Lisp, which the user pastes.

use std::path::Path;

use crate::cli::agent_command::installed;
use crate::cli::programs::InterpreterFolder;
use rejoin::engine::known::KnownAgent;
use rejoin::json;

use super::wrapping::PATH;

/// An agent's id and name, and its command with rejoin in front of it.
type Wrapped = (&'static str, &'static str, Vec<String>);

/// What is said of the example, behind the characters that begin a comment.
const EXAMPLE: &str = "No agent that speaks ACP is on PATH: OpenCode is an example here.";

/// The installed agents with rejoin in front of each, or an example; and whether it is one.
fn agents(rejoin: &[String]) -> (Vec<Wrapped>, bool) {
    let wrapped = |known: &'static KnownAgent, command: Vec<String>| -> Wrapped {
        let program = command.first().map(Path::new);
        let found = program.and_then(InterpreterFolder::of);
        let path = found.map(|found| [PATH.to_owned(), found.folder]);
        let words = rejoin.iter().cloned().chain(path.into_iter().flatten());
        let words = words.chain(["--".to_owned()]).chain(command);
        (&known.id, &known.name, words.collect())
    };
    let found: Vec<_> = installed()
        .map(|(known, command)| wrapped(known, command))
        .collect();
    if !found.is_empty() {
        return (found, false);
    }
    let example = KnownAgent::called("opencode").into_iter();
    let example = example.map(|known| {
        let words = known.command.iter().chain(&known.args);
        wrapped(known, words.cloned().collect())
    });
    (example.collect(), true)
}

/// For Neovim: CodeCompanion and avante. `rejoin` is `rejoin wrap` with its options.
pub(super) fn neovim(rejoin: &[String]) -> String {
    let (agents, is_example) = agents(rejoin);
    let note = if is_example {
        format!("-- {EXAMPLE}\n")
    } else {
        String::new()
    };
    let adapters: String = agents.iter().map(adapter).collect();
    let providers: String = agents.iter().map(provider).collect();
    let first = agents.first().map(|(_, title, _)| name_of(title));
    let first = first.unwrap_or_default();
    format!(
        "{note}-- CodeCompanion: paste this into your settings; `:CodeCompanionChat adapter={first}` uses it.
require(\"codecompanion\").setup({{
  adapters = {{
    acp = {{
{adapters}    }},
  }},
}})

-- avante: the same. Keys of the agent must be in `env` of its entry.
require(\"avante\").setup({{
  provider = \"{first}\",
  acp_providers = {{
{providers}  }},
}})
"
    )
}

/// An adapter of CodeCompanion.
fn adapter((id, title, command): &Wrapped) -> String {
    let base = match *id {
        "claude-acp" => "claude_code",
        "codex-acp" => "codex",
        "gemini" => "gemini_cli",
        "kimi" => "kimi_cli",
        "goose" => "goose",
        // An adapter that does nothing special.
        _ => "opencode",
    };
    let (name, command) = (name_of(title), quoted(command, ", "));
    format!(
        "      {name} = function()
        return require(\"codecompanion.adapters\").extend(\"{base}\", {{
          name = \"{name}\",
          formatted_name = \"{title} (rejoin)\",
          commands = {{ default = {{ {command} }} }},
        }})
      end,\n"
    )
}

/// A provider of avante.
fn provider((_, title, command): &Wrapped) -> String {
    let (program, arguments) = command.split_at(1);
    let (program, arguments) = (quoted(program, ""), quoted(arguments, ", "));
    let name = name_of(title);
    format!(
        "    [\"{name}\"] = {{\n      command = {program},\n      args = {{ {arguments} }},\n    }},\n"
    )
}

/// The name of an agent with rejoin, as a name in Lua.
fn name_of(title: &str) -> String {
    let title = title.to_lowercase();
    format!(
        "{}_rejoin",
        title.replace(|c: char| !c.is_alphanumeric(), "_")
    )
}

/// For Emacs: agent-shell.
pub(super) fn emacs(rejoin: &[String]) -> String {
    let variable = |(id, _, command): Wrapped| {
        let name = match id {
            "claude-acp" => "anthropic-claude",
            "codex-acp" => "openai-codex",
            "gemini" => "google-gemini",
            "opencode" => "opencode",
            "qwen-code" => "qwen",
            "goose" => "goose",
            _ => return None,
        };
        let command = quoted(&command, " ");
        Some(format!(
            "(setq agent-shell-{name}-acp-command\n      '({command}))\n"
        ))
    };
    let (agents, is_example) = agents(rejoin);
    let note = if is_example {
        format!(";; {EXAMPLE}\n")
    } else {
        String::new()
    };
    let variables: String = agents.into_iter().filter_map(variable).collect();
    format!(
        "{note};; agent-shell: paste this into your init file; `M-x agent-shell` uses it.
{variables}(setq agent-shell-session-strategy 'prompt)         ; offer earlier sessions
(setq agent-shell-session-restore-verbosity 'full)  ; and show what was said
"
    )
}

/// Words in quotes, which Lua and Lisp read as JSON does for what is in paths.
fn quoted(words: &[String], separator: &str) -> String {
    let words: Vec<_> = words.iter().map(|word| json::quoted(word)).collect();
    words.join(separator)
}
