//! `rejoin sessions search`.

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::index::{ListError, Search};

use super::context::Context;
use super::list;

/// How many bytes of unread logs are read at once.
const WORDS: usize = 64 * 1024 * 1024;

/// What to look for.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Words to search for, or their beginnings. A session matches if all of them occur in what was
    /// said, or in what its tools were given and returned.
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    #[command(flatten)]
    pub(super) list: list::Args,
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let search = Search::parse(&args.text.join(" "))
        .ok_or_else(|| Failure::usage("the text to search for is blank"))?;
    context
        .reading(|catalog| -> Result<(), ListError> {
            while !catalog.read_words(WORDS)? {}
            Ok(())
        })
        .map_err(|error| Failure::new(format!("cannot search sessions: {error}")))?;
    list::show(context, &args.list, Some(search), output)
}
