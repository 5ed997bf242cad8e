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
    /// The words to look for, or their beginnings. A session is found if all of them were said in
    /// it, by the user or the agent or in the title of a tool call.
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    #[command(flatten)]
    pub(super) list: list::Args,
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let search = Search::parse(&args.text.join(" "))
        .ok_or_else(|| Failure::usage("there is nothing to look for: the text is blank"))?;
    context
        .reading(|catalog| -> Result<(), ListError> {
            while !catalog.read_words(WORDS)? {}
            Ok(())
        })
        .map_err(|error| Failure::new(format!("cannot search sessions: {error}")))?;
    list::show(context, &args.list, Some(search), output)
}
