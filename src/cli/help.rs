//! The help of the whole program, and tips for words that are no commands.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::term::{Output, pad, wrapped};

/// The heading of the options of `serve`, the default command. People do not need them.
pub(super) const SERVE: &str = "Serve options";

/// What the program is for, below its head line.
const PURPOSE: &str = "\
In a terminal, `rejoin` alone is a list of the conversations of the agents on this machine. In an editor, \
`rejoin wrap -- AGENT` in the place of the agent's command records each conversation before it is \
shown, so that no crash loses anything; `rejoin setup` changes the settings.";

/// The commands by what people want.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Conversations",
        &[
            "list",
            "search",
            "show",
            "resume",
            "open",
            "export",
            "permissions",
            "secrets",
            "stats",
        ],
    ),
    (
        "Keeping them in order",
        &[
            "import", "rename", "fork", "rewind", "delete", "restore", "trash", "prune",
        ],
    ),
    ("What runs now", &["ps", "attach", "wait", "stop"]),
    (
        "Editors and agents",
        &["setup", "doctor", "wrap", "agent", "mcp"],
    ),
    ("Stores", &["store", "verify", "take-over"]),
    (
        "More",
        &["demo", "serve", "proxy", "completions", "man", "help"],
    ),
];

/// The width of the column with the names of commands, and the widest line.
const NAMES: usize = 13;
const WIDEST: usize = 100;

/// The command with its subcommands in groups and without the options of `serve` in its help.
pub(super) fn arranged(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_help_heading() {
        Some(SERVE) => argument.hide(true),
        _ => argument,
    });
    let output = Output::standard();
    let room = if output.is_terminal() {
        output.look().width.min(WIDEST)
    } else {
        WIDEST
    };
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let below = format!("\n{}", pad("", NAMES + 2));
    let mut lines = vec![
        "{about-with-newline}".to_owned(),
        wrapped(PURPOSE, room).join("\n"),
        "\n{usage-heading} {usage}".to_owned(),
    ];
    for (heading, names) in GROUPS {
        lines.push(format!("\n{header}{heading}:{header:#}"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(|| HELP.to_owned(), ToString::to_string);
            let about = wrapped(&about, room.saturating_sub(NAMES + 2)).join(&below);
            let gap = pad("", NAMES - name.len());
            lines.push(format!("  {literal}{name}{literal:#}{gap}{about}"));
        }
    }
    lines.push(format!(
        "\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    ));
    let template = lines.join("\n");
    command.help_template(template)
}

/// What `help` does, which the library adds when it parses.
const HELP: &str = "Print this message or the help of a command";

/// Words that people know from other programs, and what does here what they mean.
const OTHER_WORDS: &[(&[&str], &[&str])] = &[
    (
        &["continue", "load"],
        &[
            "in your editor, sessions are resumed with `rejoin wrap -- AGENT` as its agent",
            "in a terminal, `rejoin resume last` says how their own tool goes on with them",
        ],
    ),
    (
        &["kill", "end", "quit"],
        &["`rejoin stop ID` ends a turn and closes its session"],
    ),
    (
        &["find", "grep"],
        &["`rejoin search WORDS` searches conversations"],
    ),
    (&["history"], &["`rejoin list` lists conversations"]),
    (
        &["last"],
        &["`rejoin show last` shows the last conversation"],
    ),
    (
        &["log", "logs", "cat", "view"],
        &["`rejoin show ID` shows a conversation, `rejoin open ID` in the browser"],
    ),
    (
        &["status"],
        &["`rejoin ps` lists what runs, `rejoin doctor` checks what is set up"],
    ),
    (
        &["watch"],
        &["`rejoin attach ID` follows a session, `rejoin ps --watch` all that run"],
    ),
    (&["version"], &["`rejoin --version` prints the version"]),
];

/// Adds what was probably meant to an error about a word that is no command.
pub(super) fn suggest(error: &mut clap::Error) {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => word,
        _ => return,
    };
    let known = OTHER_WORDS
        .iter()
        .find(|(words, _)| words.contains(&word.as_str()));
    let Some((_, tips)) = known else { return };
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = tips.iter().map(|tip| (*tip).into()).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visible_command_is_in_one_group() {
        let command = super::super::definition();
        let visible = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let mut visible: Vec<_> = visible.map(Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<_> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn words_with_tips_are_no_commands() {
        let command = super::super::definition();
        for word in OTHER_WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(command.find_subcommand(word).is_none(), "{word}");
        }
    }
}
