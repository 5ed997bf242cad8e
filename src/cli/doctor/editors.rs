//! The settings of editors: whether they can be read, and whether what they start is there.

use std::path::{Path, PathBuf};

use crate::cli::agent_command;
use crate::cli::agent_command::started_by;
use crate::cli::programs::{InterpreterFolder, on_path};
use crate::cli::setup::{
    AgentCommand, AgentEntry, Document, Editor, EditorFolders, SettingsFile, has_twin,
};
use crate::cli::term::{Look, count};
use rejoin::sys::program::is_program;

use super::finding::Finding;

/// The commands of rejoin that editors start.
const SERVING: [&str; 5] = ["serve", "wrap", "agent", "proxy", "attach"];

pub(super) fn check(look: &Look) -> Vec<Finding> {
    let Some(folders) = EditorFolders::of_user() else {
        return Vec::new();
    };
    let files = files(&folders);
    let found = files.flat_map(|(editor, path)| file(editor, &path, &folders, look));
    found.collect()
}

/// The names of the agents that are in settings.
pub(super) fn agents() -> Vec<String> {
    let Some(folders) = EditorFolders::of_user() else {
        return Vec::new();
    };
    let mut agents = Vec::new();
    for (_, path) in files(&folders) {
        // What cannot be read is reported by `check`.
        let Ok(file) = SettingsFile::read(path) else {
            continue;
        };
        let Ok(document) = Document::parse(file.text().unwrap_or_default()) else {
            continue;
        };
        agents.extend(
            document
                .entries()
                .filter_map(|entry| match entry.command() {
                    Some(command) => {
                        let known = started_by(command.agent())?;
                        Some(known.name.clone())
                    }
                    None => Some(entry.name().to_owned()),
                }),
        );
    }
    agents
}

/// The settings that are here.
fn files(folders: &EditorFolders) -> impl Iterator<Item = (Editor, PathBuf)> {
    Editor::ALL.into_iter().flat_map(|editor| {
        let files = editor.files(folders).into_iter();
        files.filter_map(move |(path, is_here)| is_here.then_some((editor, path)))
    })
}

fn file(editor: Editor, path: &Path, folders: &EditorFolders, look: &Look) -> Vec<Finding> {
    let title = editor.title();
    let shown = look.folder(&path.to_string_lossy());
    let file = match SettingsFile::read(path.to_owned()) {
        Ok(file) => file,
        Err(failure) => {
            return vec![Finding::error(
                title,
                failure.message(),
                "make it a file that you can read",
            )];
        }
    };
    let document = match Document::parse(file.text().unwrap_or_default()) {
        Ok(document) => document,
        Err(broken) => {
            let why = format!("{shown}, {broken}");
            return vec![Finding::error(title, why, "correct it in the editor")];
        }
    };
    let is_wrapped = |entry: &AgentEntry<'_>| {
        entry
            .command()
            .is_some_and(|command| command.starts_rejoin())
    };
    let entries = document.entries();
    let entries: Vec<_> = entries
        .filter(|entry| !has_twin(&document, *entry))
        .collect();
    let wrapped = entries.iter().filter(|entry| is_wrapped(entry)).count();
    // Setup leaves alone what speaks no ACP.
    let can_wrap = entries.iter().any(|entry| {
        let speaks = |command: AgentCommand<'_>| command.instead().is_none();
        !is_wrapped(entry) && entry.command().is_none_or(speaks)
    });
    let agents = count(entries.len(), "agent");
    let (message, hint) = match (entries.len(), wrapped) {
        (0, _) => (
            "no agents".to_owned(),
            Some("adds those that are installed"),
        ),
        (all, wrapped) if all == wrapped => (format!("{agents}, with rejoin in front"), None),
        (_, 0) => (
            format!("{agents}, without rejoin in front"),
            can_wrap.then_some("puts it in front"),
        ),
        (_, wrapped) => (
            format!("{agents}, {wrapped} of them with rejoin in front"),
            can_wrap.then_some("puts it in front of the others"),
        ),
    };
    let first = Finding {
        hint: hint.map(|hint| format!("`rejoin setup {}` {hint}", editor.name())),
        ..Finding::ok(title, format!("{shown}: {message}"))
    };
    let mut found = vec![first];
    found.extend(
        entries
            .iter()
            .filter_map(|entry| programs(editor, *entry, folders)),
    );
    found
}

/// Why rejoin does not start with the arguments of an entry.
fn refused(command: &AgentCommand<'_>) -> Option<String> {
    let word = command.argument(0).filter(|_| command.is_rejoin())?;
    if word == "wrap" && command.wrapped().is_none() {
        let why = "rejoin refuses these arguments: `--` belongs before the agent's command";
        return Some(why.to_owned());
    }
    let is_known = word.starts_with('-') || SERVING.contains(&word);
    (!is_known).then(|| format!("rejoin has no command `{word}` for an editor"))
}

/// The finding about the programs of an entry, if one of them is wrong.
fn programs(editor: Editor, entry: AgentEntry<'_>, folders: &EditorFolders) -> Option<Finding> {
    let command = entry.command()?;
    let (name, title) = (entry.name(), editor.title());
    let check = format!("{title}, {name}");
    for program in [command.program()]
        .into_iter()
        .chain(command.agent().next())
    {
        let is_path = program.contains(['/', '\\']);
        let is_there = if is_path {
            let path = folders.whole(program);
            is_program(&path) || !path.is_absolute()
        } else {
            on_path(program).is_some()
        };
        if !is_there {
            let hint = if is_path && command.is_rejoin() && program == command.program() {
                format!("`rejoin setup {}` writes the present path", editor.name())
            } else {
                "install it, or correct the path in the settings".to_owned()
            };
            return Some(Finding::error(
                check,
                format!("there is no program {program}"),
                hint,
            ));
        }
    }
    if let Some(why) = refused(&command) {
        return Some(Finding::error(check, why, "correct it in the settings"));
    }
    if command.is_rejoin() && !command.program().contains(['/', '\\']) {
        return Some(Finding::warning(
            check,
            "the settings name rejoin without its path: an editor that is started from a desktop may not find it",
            "`which rejoin` prints the path to write instead",
        ));
    }
    let agent = command
        .agent()
        .next()
        .filter(|_| command.wrapped().is_some());
    let needed = agent.and_then(|agent| InterpreterFolder::of(&folders.whole(agent)));
    let has_path = entry.has_variable("PATH") || command.names_folder();
    if let Some(needed) = needed.filter(|_| !has_path) {
        return Some(Finding::warning(
            check,
            format!(
                "it needs {}, which an editor that is started from a desktop does not find",
                needed.name
            ),
            format!("`rejoin setup {}` names its folder", editor.name()),
        ));
    }
    if let Some(instead) = command.instead() {
        let program = command.agent().next().unwrap_or_default();
        return Some(Finding::error(
            check,
            agent_command::no_agent(program),
            instead,
        ));
    }
    None
}
