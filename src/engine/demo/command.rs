//! The table of slash commands, and the parser that recognizes them in a prompt's text.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, UnstructuredCommandInput,
};

use super::turn::json_line;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
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

/// One command as clients and users see it.
struct Command {
    action: Action,
    /// Its names without the slash; only the first one is announced.
    names: &'static [&'static str],
    /// The arguments, for clients to show while the command is typed.
    hint: Option<&'static str>,
    description: &'static str,
}

/// All commands, in the order in which they are listed. The announcement, `/help` and the parser
/// all use this table.
const COMMANDS: &[Command] = &[
    Command {
        action: Action::Help,
        names: &["help"],
        hint: None,
        description: "List the commands of this engine",
    },
    Command {
        action: Action::History,
        names: &["history"],
        hint: None,
        description: "Count the earlier prompts and list the last ones",
    },
    Command {
        action: Action::Recall,
        names: &["recall"],
        hint: Some("[N]"),
        description: "Quote an earlier prompt in full, the last one if no number is given",
    },
    Command {
        action: Action::Echo,
        names: &["echo"],
        hint: Some("TEXT"),
        description: "Answer with exactly this text and the attachments, byte for byte",
    },
    Command {
        action: Action::Read,
        names: &["read"],
        hint: Some("PATH [FROM [COUNT]]"),
        description: "Show a text file",
    },
    Command {
        action: Action::Write,
        names: &["write"],
        hint: Some("PATH TEXT"),
        description: "Write a text file",
    },
    Command {
        action: Action::Run,
        names: &["run"],
        hint: Some("COMMAND"),
        description: "Run a command and show what it says",
    },
    Command {
        action: Action::Think,
        names: &["think"],
        hint: Some("[TEXT]"),
        description: "Show thoughts, then an answer",
    },
    Command {
        action: Action::Plan,
        names: &["plan"],
        hint: Some("[SECONDS]"),
        description: "Show a plan and work it off step by step, with a pause between the steps if one is given",
    },
    Command {
        action: Action::Tool,
        names: &["tool"],
        hint: Some("[KIND] [fail] [slow [SECONDS]]"),
        description: "Show a tool call of a kind (edit, read, execute, …); no file is touched and nothing is run",
    },
    Command {
        action: Action::Image,
        names: &["image"],
        hint: None,
        description: "Answer with a picture",
    },
    Command {
        action: Action::Resource,
        names: &["resource"],
        hint: None,
        description: "Answer with an embedded text and a link",
    },
    Command {
        action: Action::Tools,
        names: &["tools"],
        hint: None,
        description: "List the session's MCP servers and their tools",
    },
    Command {
        action: Action::Call,
        names: &["call"],
        hint: Some("SERVER TOOL [JSON]"),
        description: "Call a tool of an MCP server",
    },
    Command {
        action: Action::Demo,
        names: &["demo", "mixed"],
        hint: Some("[SECONDS]"),
        description: "Show one of each in a single turn: thought, plan, tool call, picture, text; with a pause between the steps if one is given",
    },
    Command {
        action: Action::Slow,
        names: &["slow"],
        hint: Some("[SECONDS]"),
        description: "Answer for some seconds (5 by default), a bit every 100 ms",
    },
    Command {
        action: Action::Flood,
        names: &["flood"],
        hint: Some("[CHUNKS] [BYTES]"),
        description: "Answer with many numbered chunks (1000 of 64 bytes by default) as fast as they are taken",
    },
    Command {
        action: Action::Fail,
        names: &["fail"],
        hint: Some("[WAY]"),
        description: "End the turn otherwise: error (by default), refusal, max_tokens or max_turn_requests",
    },
];

/// What a prompt's text requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// Plain text.
    Plain,
    /// A command with the text that follows its name.
    Command { action: Action, rest: &'a str },
    /// A word with a slash that looks like a command but is not one of ours; `alone` if the text
    /// has nothing else, so that it is hardly a sentence that begins with a path.
    Unknown { word: &'a str, alone: bool },
}

/// Parses a prompt's text. White space before the slash is skipped.
pub(super) fn parse(text: &str) -> Parsed<'_> {
    let Some((word, rest)) = split(text) else {
        return Parsed::Plain;
    };
    let named = COMMANDS.iter().find(|command| {
        let name = &word[1..];
        command
            .names
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
    });
    match named {
        Some(command) => Parsed::Command {
            action: command.action,
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
    let rest = rest.strip_prefix("\r\n").unwrap_or_else(|| {
        let mut chars = rest.chars();
        chars.next();
        chars.as_str()
    });
    Some((word, rest))
}

/// The commands as a JSON array of the protocol's `AvailableCommand`.
pub(super) fn announcement() -> String {
    let commands = COMMANDS.iter().map(|command| {
        let hint = command.hint.map(UnstructuredCommandInput::new);
        AvailableCommand::new(command.names[0], command.description)
            .input(hint.map(AvailableCommandInput::Unstructured))
    });
    json_line(&commands.collect::<Vec<_>>())
}

/// The commands as a list in Markdown.
pub(super) fn help() -> String {
    let lines = COMMANDS.iter().map(|command| {
        let name = command.names[0];
        let description = command.description;
        match command.hint {
            Some(hint) => format!("- `/{name}` `{hint}`: {description}\n"),
            None => format!("- `/{name}`: {description}\n"),
        }
    });
    let lines = lines.collect::<Vec<_>>().concat();
    format!(
        "I am the engine built into rejoin: no model, no network. I know these commands; anything \
         else I answer from the conversation itself.\n\n{lines}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_paths_and_sentences() {
        let command = |action, rest| Parsed::Command { action, rest };
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
            ("/help", command(Action::Help, "")),
            ("  /HELP  ", command(Action::Help, " ")),
            ("/helper", unknown("/helper", true)),
            ("/nope", unknown("/nope", true)),
            ("/no-pe \n", unknown("/no-pe", true)),
            ("/tmp is full", unknown("/tmp", false)),
            ("/hälp", Parsed::Plain),
            ("/recall 3", command(Action::Recall, "3")),
            ("/mixed", command(Action::Demo, "")),
            ("/echo  a\r\nb ", command(Action::Echo, " a\r\nb ")),
            ("/echo\na", command(Action::Echo, "a")),
            ("/echo\r\n\r\na", command(Action::Echo, "\r\na")),
            ("/echo\u{2003}a", command(Action::Echo, "a")),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_name_is_used_once_and_found() {
        let mut seen = Vec::new();
        for command in COMMANDS {
            for name in command.names {
                assert!(!seen.contains(name), "{name}");
                seen.push(name);
                let text = format!("/{name}");
                let action = command.action;
                assert_eq!(parse(&text), Parsed::Command { action, rest: "" });
            }
            assert!(help().contains(&format!("- `/{}", command.names[0])));
        }
    }
}
