//! `rejoin man`.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use clap_mangen::{Man, generate_to};

use super::exit::Failure;
use super::term::{Output, Pager};

/// Where the pages go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rejoin man --out ~/.local/share/man/man1")]
pub(super) struct Args {
    /// Write a page for each command into this folder, instead of showing rejoin's own.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args, command: clap::Command, output: &mut Output) -> Result<(), Failure> {
    if let Some(folder) = &args.out {
        return std::fs::create_dir_all(folder)
            .and_then(|()| generate_to(command, folder))
            .map_err(|error| {
                Failure::new(format!("cannot write to {}: {error}", folder.display()))
            });
    }
    let mut page = Vec::new();
    Man::new(command.disable_help_subcommand(true))
        .render(&mut page)
        .map_err(|error| Failure::new(format!("cannot write the page: {error}")))?;
    if output.is_terminal() && is_shown(&page)? {
        return Ok(());
    }
    output.raw(&String::from_utf8_lossy(&page))
}

/// Has `man` show a page. Some systems have one that reads only files.
fn is_shown(page: &[u8]) -> Result<bool, Failure> {
    let mut man = Command::new("man");
    man.args(["-l", "-"]);
    let Some((pager, mut input)) = Pager::of(man) else {
        return Ok(false);
    };
    // A user who leaves before the end has seen enough.
    input.write_all(page).ok();
    drop(input);
    pager.wait()
}
