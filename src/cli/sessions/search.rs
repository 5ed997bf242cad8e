//! `rejoin sessions search`.

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::index::{Catalog, Search};

use super::list;

/// How much of logs is read at once for words that were never read, in bytes.
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

pub(super) fn run(catalog: &Catalog, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let search = Search::parse(&args.text.join(" "))
        .ok_or_else(|| Failure::usage("there is nothing to look for: the text is blank"))?;
    let cannot = |error| Failure::new(format!("cannot search sessions: {error}"));
    while !catalog.read_words(WORDS).map_err(cannot)? {}
    list::show(catalog, &args.list, Some(search), output)
}
