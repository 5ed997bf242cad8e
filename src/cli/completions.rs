//! `rejoin completions`, and what the scripts that it prints ask at each Tab: they start this program
//! with [`VARIABLE`] in the environment, so they know its commands and sessions as they are then.

use std::ffi::OsString;
use std::path::Path;

use clap::{Command, FromArgMatches};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use rejoin::index::{Archived, Catalog, Filter};
use rejoin::sources::SOURCES;
use rejoin::sys::SessionId;

use super::exit::{self, Failure};
use super::global::Global;
use super::sessions::context::CommandContext;
use super::sessions::named::{LAST, ShortIds, TrashedContent};
use super::sources;
use super::term::{Output, one_line};

/// The environment variable with the name of the shell that wants completions.
const VARIABLE: &str = "REJOIN_COMPLETE";

/// How many sessions are offered, the last used first.
const MOST: usize = 200;

/// Which script to print.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The shell that is to complete.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const HELP: &str = "\
Where the script belongs:
  bash        rejoin completions bash > ~/.local/share/bash-completion/completions/rejoin
  zsh         rejoin completions zsh > ~/.zfunc/_rejoin
              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish        rejoin completions fish > ~/.config/fish/completions/rejoin.fish
  PowerShell  rejoin completions powershell | Out-String | Invoke-Expression
              in the file that $PROFILE names
  Elvish      rejoin completions elvish > ~/.config/elvish/lib/rejoin.elv
              with `use rejoin` in rc.elv";

pub(super) fn run(args: &Args, output: &mut Output) -> Result<(), Failure> {
    let (name, shells) = (args.shell.to_string(), Shells::builtins());
    let Some(shell) = shells.completer(&name) else {
        return Err(Failure::usage(format!("there is no script for {name}")));
    };
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "rejoin", "rejoin", "rejoin", &mut script)
        .map_err(|error| Failure::new(format!("cannot write the script: {error}")))?;
    if args.shell == Shell::Zsh {
        script.extend_from_slice(AUTOLOADED);
    }
    output.raw(&String::from_utf8_lossy(&script))
}

/// A file of zsh's `fpath` is first run at the first Tab, which wants completions, too.
const AUTOLOADED: &[u8] =
    b"[[ $funcstack[1] == _rejoin ]] && _clap_dynamic_completer_rejoin \"$@\"\n";

/// Whether a shell wants completions.
pub(super) fn are_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|shell| !shell.is_empty())
}

/// Prints the completions of the last of the words behind `--`.
pub(super) fn complete(arguments: Vec<OsString>) -> u8 {
    let words = arguments.iter().skip_while(|word| *word != "--").skip(1);
    // What is typed so far may be wrong or lack something.
    let matches = super::definition()
        .ignore_errors(true)
        .try_get_matches_from(words);
    let global = matches
        .ok()
        .and_then(|matches| Global::from_arg_matches(&matches).ok());
    // Files are completed from the folder in which the shell is.
    let completed = CompleteEnv::with_factory(|| with_values(super::definition(), global.as_ref()))
        .var(VARIABLE)
        .try_complete(arguments, Some(Path::new(".")));
    if completed.is_ok() {
        exit::OK
    } else {
        exit::FAILED
    }
}

/// The command with candidates for the names of sessions and of tools.
fn with_values(command: Command, global: Option<&Global>) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_subcommands(|below| with_values(below, global));
    command.mut_args(|argument| {
        let global = global.cloned();
        let is_session = argument
            .get_value_names()
            .is_some_and(|names| names == ["ID"]);
        match (argument.get_id().as_str(), global) {
            ("sources", _) => argument.add(ArgValueCandidates::new(tools)),
            (_, Some(global)) if is_session => {
                let name = name.clone();
                argument.add(ArgValueCandidates::new(move || sessions(&name, &global)))
            }
            _ => argument,
        }
    })
}

/// The values of `--sources`.
fn tools() -> Vec<CompletionCandidate> {
    let names = SOURCES.iter().map(|source| source.name);
    let names = [sources::ALL, sources::NONE].into_iter().chain(names);
    names.map(CompletionCandidate::new).collect()
}

/// The sessions that a command works with, the last used first. Nothing is looked for: those of other
/// tools are the ones that the last list has found.
fn sessions(command: &str, global: &Global) -> Vec<CompletionCandidate> {
    let Ok(mut context) = CommandContext::of_existing(global) else {
        return Vec::new();
    };
    if command == "restore" {
        let trashed = context.store.trashed().unwrap_or_default();
        let title = |trashed| TrashedContent::of(&context.store, trashed).title;
        return candidates(trashed.iter().map(|trashed| (&trashed.id, title(trashed))));
    }
    if matches!(command, "show" | "open" | "export" | "resume")
        && let Ok(tools @ Some(_)) = sources::usual(global)
    {
        context.catalog = Catalog::with_tools(context.store.clone(), tools);
    }
    let filter = Filter {
        archived: Archived::Include,
        ..Filter::default()
    };
    let listed = context.catalog.list(&filter, None, MOST);
    let listed = listed.map_or_else(|_| Vec::new(), |page| page.sessions);
    let is_meant = |id: &SessionId| match command {
        "attach" | "stop" | "take-over" => context.store.is_open(id),
        _ => true,
    };
    let meant = listed.iter().filter(|listed| is_meant(&listed.id));
    candidates(meant.map(|listed| (&listed.id, listed.summary.title.clone())))
}

/// The sessions by their short IDs, with their titles.
fn candidates<'a>(
    sessions: impl Iterator<Item = (&'a SessionId, Option<String>)>,
) -> Vec<CompletionCandidate> {
    let sessions: Vec<_> = sessions.collect();
    let short = ShortIds::of(sessions.iter().map(|(id, _)| *id));
    let last = sessions.first().map(|_| CompletionCandidate::new(LAST));
    let sessions = sessions.iter().map(|(id, title)| {
        let title = title.as_deref().map(|title| one_line(title).into());
        CompletionCandidate::new(short.id(id)).help(title)
    });
    last.into_iter().chain(sessions).collect()
}
