//! The table of slash commands, and the parser that recognizes them in a prompt's text.

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, UnstructuredCommandInput,
};

use super::args::skip_space;
use super::describe::quote;
use super::turn::json_line;

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoCommand {
    Help,
    History,
    Recall,
    Echo,
    Read,
    Write,
    Run,
    Think,
    Plan,
    Tool,
    Image,
    Resource,
    Tools,
    Call,
    Demo,
    Slow,
    Flood,
    Fail,
}

/// A command as clients and users see it.
struct Spec {
    command: DemoCommand,
    /// Its names without the slash; only the first one is announced.
    names: &'static [&'static str],
    /// The arguments, for clients to show while the command is typed.
    hint: Option<&'static str>,
    description: &'static str,
}

/// All commands, in the order in which they are listed. The announcement, `/help` and the parser
/// all use this table.
const COMMANDS: &[Spec] = &[
    Spec {
        command: DemoCommand::Help,
        names: &["help"],
        hint: None,
        description: "List the commands of this engine",
    },
    Spec {
        command: DemoCommand::History,
        names: &["history"],
        hint: None,
        description: "Count the earlier prompts and list the last ones",
    },
    Spec {
        command: DemoCommand::Recall,
        names: &["recall"],
        hint: Some("[N]"),
        description: "Quote an earlier prompt in full: the last one, or the N-th before this one",
    },
    Spec {
        command: DemoCommand::Echo,
        names: &["echo"],
        hint: Some("TEXT"),
        description: "Send the text and the attachments back, byte for byte",
    },
    Spec {
        command: DemoCommand::Read,
        names: &["read"],
        hint: Some("PATH [FROM [COUNT]]"),
        description: "Show a text file",
    },
    Spec {
        command: DemoCommand::Write,
        names: &["write"],
        hint: Some("PATH TEXT"),
        description: "Write a text file",
    },
    Spec {
        command: DemoCommand::Run,
        names: &["run"],
        hint: Some("COMMAND"),
        description: "Run a shell command and show its output",
    },
    Spec {
        command: DemoCommand::Think,
        names: &["think"],
        hint: Some("[TEXT]"),
        description: "Show thoughts, then an answer",
    },
    Spec {
        command: DemoCommand::Plan,
        names: &["plan"],
        hint: Some("[SECONDS]"),
        description: "Show a plan and complete its steps one by one, SECONDS apart",
    },
    Spec {
        command: DemoCommand::Tool,
        names: &["tool"],
        hint: Some("[KIND] [fail] [slow [SECONDS]]"),
        description: "Simulate a tool call (edit, read, execute, …); it touches no file and runs nothing",
    },
    Spec {
        command: DemoCommand::Image,
        names: &["image"],
        hint: None,
        description: "Answer with an image",
    },
    Spec {
        command: DemoCommand::Resource,
        names: &["resource"],
        hint: None,
        description: "Answer with an embedded text and a link",
    },
    Spec {
        command: DemoCommand::Tools,
        names: &["tools"],
        hint: None,
        description: "List the session's MCP servers and their tools",
    },
    Spec {
        command: DemoCommand::Call,
        names: &["call"],
        hint: Some("SERVER TOOL [JSON]"),
        description: "Call a tool of an MCP server",
    },
    Spec {
        command: DemoCommand::Demo,
        names: &["demo", "mixed"],
        hint: Some("[SECONDS]"),
        description: "Show one of each in a single turn: thought, text, plan, tool call, image; SECONDS apart",
    },
    Spec {
        command: DemoCommand::Slow,
        names: &["slow"],
        hint: Some("[SECONDS]"),
        description: "Answer for SECONDS (5 by default), one chunk every 100 ms",
    },
    Spec {
        command: DemoCommand::Flood,
        names: &["flood"],
        hint: Some("[CHUNKS] [BYTES]"),
        description: "Answer with many numbered chunks (1000 of 64 bytes by default), as fast as the client reads",
    },
    Spec {
        command: DemoCommand::Fail,
        names: &["fail"],
        hint: Some("[WAY]"),
        description: "Fail the turn: error (by default), refusal, max_tokens or max_turn_requests",
    },
];

/// The request in a prompt's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// Plain text.
    Plain,
    /// A command with the text that follows its name.
    Command { command: DemoCommand, rest: &'a str },
    /// A word with a slash that looks like a command but is not one of ours; `alone` if the text
    /// has nothing else, so that it is hardly a sentence that begins with a path.
    Unknown { word: &'a str, alone: bool },
}

/// Parses a prompt's text. White space before the slash is skipped.
pub(super) fn parse(text: &str) -> Parsed<'_> {
    let Some((word, rest)) = split(text) else {
        return Parsed::Plain;
    };
    let name = &word[1..];
    let named = COMMANDS.iter().find(|spec| {
        let mut names = spec.names.iter();
        names.any(|known| known.eq_ignore_ascii_case(name))
    });
    match named {
        Some(spec) => Parsed::Command {
            command: spec.command,
            rest,
        },
        None => Parsed::Unknown {
            word,
            alone: rest.trim().is_empty(),
        },
    }
}

/// Splits a text into its command word, slash included, and the rest; one line break or other white
/// space character after the word belongs to neither.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let name = text.strip_prefix('/')?;
    let end = name.find(char::is_whitespace).unwrap_or(name.len());
    let looks_like_a_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name[..end]
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !looks_like_a_name {
        return None;
    }
    let (word, rest) = text.split_at('/'.len_utf8() + end);
    Some((word, skip_space(rest)))
}

/// The commands as a JSON array of the protocol's `AvailableCommand`.
pub(super) fn announcement() -> String {
    let commands = COMMANDS.iter().map(|spec| {
        let hint = spec.hint.map(UnstructuredCommandInput::new);
        AvailableCommand::new(spec.names[0], spec.description)
            .input(hint.map(AvailableCommandInput::Unstructured))
    });
    json_line(&commands.collect::<Vec<_>>())
}

/// The commands as a list in Markdown.
pub(super) fn help() -> String {
    let lines = COMMANDS
        .iter()
        .map(|spec| format!("- {}: {}\n", spec.usage(), spec.description));
    let lines = lines.collect::<String>();
    format!(
        "I am rejoin's built-in engine: no model, no network. These are my commands; anything else \
         I answer from the conversation itself.\n\n{lines}"
    )
}

/// The answer to a command with invalid arguments.
pub(super) fn usage(command: DemoCommand, explanation: &str, arguments: &str) -> String {
    let invalid = if arguments.trim().is_empty() {
        String::new()
    } else {
        format!("Invalid arguments {}. ", quote(arguments))
    };
    let spec = COMMANDS.iter().find(|spec| spec.command == command);
    let usage = spec.map(Spec::usage).unwrap_or_default();
    format!("{invalid}Usage: {usage}. {explanation}")
}

impl Spec {
    /// Its name and its arguments, as code in Markdown.
    fn usage(&self) -> String {
        match self.hint {
            Some(hint) => format!("`/{} {hint}`", self.names[0]),
            None => format!("`/{}`", self.names[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_paths_and_sentences() {
        let command = |command, rest| Parsed::Command { command, rest };
        let unknown = |word, alone| Parsed::Unknown { word, alone };
        for (text, expected) in [
            ("", Parsed::Plain),
            ("/", Parsed::Plain),
            ("hello /help", Parsed::Plain),
            ("/etc/hosts is broken", Parsed::Plain),
            ("/.config is empty", Parsed::Plain),
            ("//help", Parsed::Plain),
            ("/ help", Parsed::Plain),
            ("/2 of them", Parsed::Plain),
            ("/help", command(DemoCommand::Help, "")),
            ("  /HELP  ", command(DemoCommand::Help, " ")),
            ("/helper", unknown("/helper", true)),
            ("/nope", unknown("/nope", true)),
            ("/no-pe \n", unknown("/no-pe", true)),
            ("/tmp is full", unknown("/tmp", false)),
            ("/hälp", Parsed::Plain),
            ("/recall 3", command(DemoCommand::Recall, "3")),
            ("/mixed", command(DemoCommand::Demo, "")),
            ("/echo  a\r\nb ", command(DemoCommand::Echo, " a\r\nb ")),
            ("/echo\na", command(DemoCommand::Echo, "a")),
            ("/echo\r\n\r\na", command(DemoCommand::Echo, "\r\na")),
            ("/echo\u{2003}a", command(DemoCommand::Echo, "a")),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_name_is_used_once_and_found() {
        let mut seen = Vec::new();
        for spec in COMMANDS {
            for name in spec.names {
                assert!(!seen.contains(name), "{name}");
                seen.push(name);
                let text = format!("/{name}");
                let command = spec.command;
                assert_eq!(parse(&text), Parsed::Command { command, rest: "" });
            }
            assert!(help().contains(&format!("- `/{}", spec.names[0])));
        }
    }
}
