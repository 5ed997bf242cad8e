//! `rejoin completions`.

use clap_complete::{Shell, generate};

use super::exit::Failure;
use super::output::Output;

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

/// The command without those below it that help does not list: the scripts would offer them.
fn visible(command: &'static clap::Command) -> clap::Command {
    let below = command.get_subcommands();
    clap::Command::new(command.get_name())
        .visible_aliases(command.get_visible_aliases())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(command.get_version().unwrap_or_default())
        .args(command.get_arguments())
        .groups(command.get_groups())
        .subcommands(below.filter(|below| !below.is_hide_set()).map(visible))
}
