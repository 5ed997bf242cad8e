//! `rejoin completions`.

use clap_complete::{Shell, generate};

use super::exit::Failure;
use super::term::Output;

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

pub(super) fn run(
    args: &Args,
    command: &'static clap::Command,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut visible(command), "rejoin", &mut script);
    output.raw(&String::from_utf8_lossy(&script))
}

/// The command without the commands and options that help does not list: the scripts would offer them.
fn visible(command: &'static clap::Command) -> clap::Command {
    let below = command.get_subcommands();
    let arguments = || {
        command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
    };
    let groups = command.get_groups().map(|group| {
        let is_in = |argument: &&clap::Arg| group.get_args().any(|id| id == argument.get_id());
        let ids = arguments().filter(is_in).map(clap::Arg::get_id);
        clap::ArgGroup::new(group.get_id()).args(ids).multiple(true)
    });
    clap::Command::new(command.get_name())
        .visible_aliases(command.get_visible_aliases())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(command.get_version().unwrap_or_default())
        .args(arguments())
        .groups(groups)
        .subcommands(below.filter(|below| !below.is_hide_set()).map(visible))
}
