//! `rejoin man`.

use std::path::PathBuf;

use clap_mangen::{Man, generate_to};

use super::exit::Failure;
use super::output::Output;

/// Where the pages go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Read it without installing it: rejoin man | man -l -")]
pub(super) struct Args {
    /// Write a page for each command into this folder, instead of printing rejoin's own.
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
    output.raw(&String::from_utf8_lossy(&page))
}
