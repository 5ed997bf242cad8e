//! `rejoin setup`: puts rejoin in front of the agents in the settings of editors, or installs a service.

mod document;
mod editor;
mod file;
mod paste;
mod secrets;
mod service;
#[cfg(test)]
mod tests;
mod wrapping;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;

use rejoin::engine::known::KnownAgent;
use rejoin::protocol::v2::patch::patch;
use rejoin::store::place;
use rejoin::sys::program::is_program;

use super::agent_command::{command_of, with_npx};
use super::exit::Failure;
use super::global::Global;
use super::programs::{InterpreterFolder, Rejoin, on_path};
use super::store_path;
use super::term::{
    ACTIVE, FAINT, ID, Look, Output, PLAIN, STRONG, Span, WRONG, ask, note, printable, report,
    stdin_is_terminal, width, wrap,
};
use secrets::SettingsSecrets;
use wrapping::{ChangedSettings, EntryOutcome, Wrapper};

pub(super) use document::{AgentCommand, AgentEntry, Document};
pub(super) use editor::{Editor, EditorFolders};
pub(super) use file::SettingsFile;
pub(super) use wrapping::has_twin;

/// How much deeper the rest of a line is indented that does not fit into the terminal.
const CONTINUED: usize = 4;

/// What to set up.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rejoin setup zed --dry-run")]
pub(super) struct Args {
    /// The editor, by default each that is found; or `import`, to copy the conversations of other tools
    /// as they come, by a service of the user that runs `rejoin import --watch`.
    #[arg(value_name = "EDITOR|import")]
    target: Option<SetupTarget>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take rejoin away again, as it was before.
    #[arg(long)]
    undo: bool,
    /// Change settings without asking.
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
}

/// The settings to change, or the service to install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetupTarget {
    Editor(Editor),
    Import,
}

impl ValueEnum for SetupTarget {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Editor(Editor::Zed),
            Self::Editor(Editor::Jetbrains),
            Self::Editor(Editor::Neovim),
            Self::Editor(Editor::Emacs),
            Self::Import,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Editor(editor) => editor.to_possible_value(),
            Self::Import => {
                Some(PossibleValue::new("import").help("A service that copies conversations"))
            }
        }
    }
}

impl Args {
    fn editor(&self) -> Option<Editor> {
        match self.target {
            Some(SetupTarget::Editor(editor)) => Some(editor),
            _ => None,
        }
    }
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let folders = EditorFolders::of_user().ok_or_else(|| {
        Failure::new("cannot find the settings of editors: the home folder is unknown")
    })?;
    let rejoin = Rejoin::this()?;
    let installs = args.target == Some(SetupTarget::Import);
    // Editors give agents the environment that they have themselves, a service has another one.
    let is_named = global.names_store() || installs && !args.undo;
    let options = match global.store().filter(|_| is_named) {
        Some(_) => {
            let root = store_path::root(global)?;
            if place::is_address(&root) && !global.names_store() {
                let why =
                    "a service does not have REJOIN_STORE, and its file is no place for a password";
                return Err(Failure::usage(why).hint(
                    "name the database by `--store`, with its password in a file for passwords",
                ));
            }
            vec!["--store".to_owned(), root.display().to_string()]
        }
        None => Vec::new(),
    };
    let setup = Setup {
        args,
        folders: &folders,
        rejoin: &rejoin,
        options: &options,
    };
    let files = if installs { Vec::new() } else { setup.files() };
    let pasted = args
        .editor()
        .is_some_and(|editor| editor.files(&folders).is_empty());
    if !args.undo
        && (pasted || installs || !files.is_empty())
        && let Some(why) = rejoin.passing
    {
        note(
            global,
            &format!("the path of this program is {}, and {why}", rejoin.path),
            None,
        );
    }
    if installs {
        return setup.import(output);
    }
    let mut result = Ok(());
    for (number, (editor, path)) in files.iter().enumerate() {
        if number > 0 {
            output.line("")?;
        }
        if let Err(failure) = setup.file(*editor, path.clone(), output) {
            // Another editor's settings may be in order.
            if files.len() == 1 {
                return Err(failure);
            }
            output.flush()?;
            report(global, &failure);
            result = Err(Failure::reported());
        }
    }
    setup.paste(output)?;
    if files.is_empty() && args.target.is_none() {
        note(
            global,
            "found no settings of Zed or of a JetBrains IDE",
            Some("name the editor, as in `rejoin setup zed`, to create them"),
        );
    }
    result
}

/// The state of a run of the command.
struct Setup<'a> {
    args: &'a Args,
    folders: &'a EditorFolders,
    rejoin: &'a Rejoin,
    options: &'a [String],
}

impl Setup<'_> {
    /// The files to change. An editor that the user names need not be here.
    fn files(&self) -> Vec<(Editor, PathBuf)> {
        let files = |editor: Editor, named: bool| {
            let files = editor.files(self.folders).into_iter().enumerate();
            let wanted = files.filter(move |(number, (_, here))| *here || named && *number == 0);
            wanted.map(move |(_, (path, _))| (editor, path))
        };
        match self.args.editor() {
            Some(editor) => {
                let found = files(editor, false).collect::<Vec<_>>();
                if found.is_empty() {
                    files(editor, true).collect()
                } else {
                    found
                }
            }
            None => Editor::ALL
                .into_iter()
                .flat_map(|editor| files(editor, false))
                .collect(),
        }
    }

    /// Changes a file, if the user agrees.
    fn file(&self, editor: Editor, path: PathBuf, output: &mut Output) -> Result<(), Failure> {
        let file = SettingsFile::read(path)?;
        let kept = if self.args.undo {
            file.kept()?
        } else {
            Vec::new()
        };
        let old = file.text().unwrap_or_default();
        let shown = path_shown(file.path(), output);
        let document = parse(&file)?;
        let change = if self.args.undo {
            // A copy that cannot be read, such as of a full disk, is no reason to leave everything.
            let kept: Vec<_> = kept.iter().filter_map(|kept| parse(kept).ok()).collect();
            wrapping::unwrap(&document, &kept)
        } else {
            self.wrap(editor, &document)
        };
        let title = output.look().paint(STRONG, editor.title());
        output.line(format!("{title}  {shown}"))?;
        for (name, outcome) in &change.entries {
            output.say(format!("  {}: {}", printable(name), describe(*outcome)))?;
        }
        if change.text == old {
            return self.nothing(&change, output);
        }
        let changed = Document::parse(&change.text).map_err(|broken| {
            let why = format!(
                "cannot change {shown} without breaking it ({broken}): nothing was changed"
            );
            Failure::new(why).hint("correct the entries in the editor")
        })?;
        let secrets = SettingsSecrets::of([&document, &changed]);
        output.line("")?;
        show(old, &change.text, &secrets, output)?;
        if !self.may_change(&shown, output)? {
            return Ok(());
        }
        if self.args.undo {
            return undo(&file, &kept, &change.text, output);
        }
        match file.replace_and_keep(&change.text)? {
            None => output.say(format!("Created {shown}."))?,
            Some(kept) => {
                let kept = path_shown(&kept, output);
                output.say(format!("Changed {shown}."))?;
                output.say(format!("The file as it was is {kept}."))?;
            }
        }
        let name = editor.name();
        output.say(format!(
            "{} `rejoin setup {name} --undo` undoes this.",
            editor.advice()
        ))
    }

    fn wrap(&self, editor: Editor, document: &Document<'_>) -> ChangedSettings {
        let resolve = |program: &str| {
            let path = self.folders.whole(program);
            let found = if program.contains(['/', '\\']) {
                Some(path).filter(|path| path.is_absolute())
            } else {
                on_path(program)
            };
            found?.to_str().map(str::to_owned)
        };
        let command = |agent: &KnownAgent, install: bool| {
            let installed = command_of(agent);
            installed.or_else(|| with_npx(agent).filter(|_| install))
        };
        let wrapper = Wrapper {
            rejoin: &self.rejoin.path,
            options: self.options,
            typed: editor == Editor::Zed,
            resolve: &resolve,
            command: &command,
            interpreter: &|program| {
                let path = self.folders.whole(program);
                InterpreterFolder::of(&path).map(|found| found.folder)
            },
            speaks_no_acp: &|command| command.instead().is_some(),
            is_gone: &|program| {
                let path = self.folders.whole(program);
                path.is_absolute() && !is_program(&path)
            },
        };
        wrapper.wrap(document)
    }

    /// Reports that there is nothing to change.
    fn nothing(&self, change: &ChangedSettings, output: &mut Output) -> Result<(), Failure> {
        output.say(if self.args.undo {
            "  no agent here is wrapped by `rejoin setup`"
        } else if change.entries.is_empty() {
            "  no agent is configured here, and none was found on PATH: install one, such as with \
             `npm install -g @agentclientprotocol/claude-agent-acp`, and run this again"
        } else {
            "  nothing to change"
        })
    }

    /// Whether a file may be changed; asks, unless the options say so. Fails if the answer is no.
    fn may_change(&self, shown: &str, output: &mut Output) -> Result<bool, Failure> {
        if self.args.dry_run {
            output.line("\nNothing was changed, because of --dry-run.")?;
            return Ok(false);
        }
        output.line("")?;
        output.flush()?;
        if self.args.yes {
            return Ok(true);
        }
        if !stdin_is_terminal() {
            let why = "nothing was changed: there is no terminal on which to ask";
            return Err(Failure::usage(why).hint("add `--yes` to make this change"));
        }
        if ask(&format!("Change {shown}?"))? {
            return Ok(true);
        }
        Err(Failure::new("nothing was changed"))
    }

    /// Prints what to paste into settings that are programs.
    fn paste(&self, output: &mut Output) -> Result<(), Failure> {
        if self.args.undo {
            let pasted = [Some(Editor::Neovim), Some(Editor::Emacs)].contains(&self.args.editor());
            if pasted {
                output.line("Remove what you have pasted.")?;
            }
            return Ok(());
        }
        let mut words = vec![self.rejoin.path.clone(), "wrap".to_owned()];
        words.extend_from_slice(self.options);
        match self.args.editor() {
            Some(Editor::Neovim) => output.raw(&printable(&paste::neovim(&words))),
            Some(Editor::Emacs) => output.raw(&printable(&paste::emacs(&words))),
            Some(_) => Ok(()),
            None => {
                let editors = [Editor::Neovim, Editor::Emacs].into_iter();
                for editor in editors.filter(|editor| editor.is_here(self.folders)) {
                    let (title, name) = (editor.title(), editor.name());
                    output.line(format!(
                        "\n{title}: `rejoin setup {name}` prints what to paste."
                    ))?;
                }
                Ok(())
            }
        }
    }
}

/// Brings a file back.
fn undo(
    file: &SettingsFile,
    kept: &[SettingsFile],
    text: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let shown = path_shown(file.path(), output);
    if kept.is_empty() && is_empty(text) {
        file.remove()?;
        return output.say(format!("Removed {shown}, which `rejoin setup` created."));
    }
    file.replace(text)?;
    let same = kept.iter().find(|kept| kept.text() == Some(text));
    let Some(same) = same else {
        return output.say(format!(
            "Changed {shown}: rejoin is gone, what else you changed has stayed."
        ));
    };
    output.say(format!("{shown} is as it was, byte for byte."))?;
    same.remove()
}

fn parse(file: &SettingsFile) -> Result<Document<'_>, Failure> {
    Document::parse(file.text().unwrap_or_default()).map_err(|broken| {
        let path = file.path().display();
        Failure::new(format!("cannot read {path}: {broken}"))
            .hint("correct it in the editor; nothing was changed")
    })
}

/// A path as people write it.
pub(super) fn path_shown(path: &Path, output: &Output) -> String {
    printable(&output.look().folder(&path.to_string_lossy()))
}

/// Whether settings are an object without content.
fn is_empty(text: &str) -> bool {
    let bare: String = text.split_whitespace().collect();
    bare == "{}"
}

fn describe(outcome: EntryOutcome) -> &'static str {
    match outcome {
        EntryOutcome::Wrapped => "rejoin is put in front of it",
        EntryOutcome::WrappedMissing => "rejoin is put in front of it; its program is not on PATH",
        EntryOutcome::Added => "is new, for the agent that is on PATH",
        EntryOutcome::AddedBeside => {
            "is new, beside the entry of the agent that the editor starts by itself"
        }
        EntryOutcome::HasOther => {
            "is started by the editor itself: left alone, another entry has it behind rejoin"
        }
        EntryOutcome::Already => "has rejoin already",
        EntryOutcome::InterpreterFound => {
            "has rejoin already; the folder of its interpreter is added"
        }
        EntryOutcome::Corrected => "the path of rejoin is corrected",
        EntryOutcome::NoCommand => "is installed by the editor, its command is unknown: left alone",
        EntryOutcome::NoAcp => {
            "speaks no ACP with these arguments: left alone, `rejoin doctor` says what to start"
        }
        EntryOutcome::Unclear => "has no `command` that can be changed: left alone",
        EntryOutcome::Unwrapped => "rejoin is taken away",
        EntryOutcome::Removed => "was added by `rejoin setup`, and is removed",
    }
}

/// A line of a patch as the lines that fit into the terminal.
fn fitted(line: &str, look: &Look) -> Vec<String> {
    let room = look.width.saturating_sub(2);
    if !look.terminal || width(line) <= room || line.starts_with('@') {
        return vec![line.to_owned()];
    }
    let (sign, text) = line.split_at(1);
    let spaces = text.len() - text.trim_start_matches(' ').len();
    // What follows is deeper than anything that could stand there by itself.
    let indent = (spaces + 1 + CONTINUED).min(room / 2);
    let mut lines = wrap(&[(PLAIN, text.to_owned())], Some(room - indent)).into_iter();
    let text = |line: Vec<Span>| line.into_iter().map(|(_, text)| text).collect::<String>();
    let first = lines.next().map(text).unwrap_or_default();
    let rest = lines.map(|line| " ".repeat(indent) + &text(line));
    std::iter::once(format!("{sign}{first}"))
        .chain(rest)
        .collect()
}

/// Prints what differs between two texts, without secrets.
fn show(
    old: &str,
    new: &str,
    secrets: &SettingsSecrets,
    output: &mut Output,
) -> Result<(), Failure> {
    let Some(patch) = patch("settings", Some(old), new) else {
        return Ok(());
    };
    let lines = patch.lines().skip_while(|line| !line.starts_with("@@"));
    let lines = lines.filter(|line| !line.starts_with('\\'));
    for line in lines {
        let text = printable(&secrets.masked(line.trim_end_matches('\r')));
        let style = match line.as_bytes().first() {
            Some(b'+') => ACTIVE,
            Some(b'-') => WRONG,
            Some(b'@') => ID,
            _ => FAINT,
        };
        let look = output.look().clone();
        for line in fitted(&text, &look) {
            output.line(format!("  {}", look.paint(style, &line)))?;
        }
    }
    Ok(())
}
