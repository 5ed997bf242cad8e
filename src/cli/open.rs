//! `rejoin open`.

use std::path::{Path, PathBuf};

use rejoin::export::{self, Format, Options};
use rejoin::redact::Redactor;
use rejoin::store::LogReader;

use super::exit::Failure;
use super::export::say_masked;
use super::global::Global;
use super::page_file::{self, PrivateFile};
use super::sessions::context::CommandContext;
use super::sessions::id::{find_readable, given};
use super::sessions::named::SESSION_OR_LIST;
use super::sources;
use super::term::{Output, note, printable};

/// What to open.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "ID", help = SESSION_OR_LIST)]
    pub(super) id: Option<String>,
    /// Mask keys and tokens, and say how many.
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let context = CommandContext::of_sources(global, &args.sources)?;
    let mut reader = context.read(&find_readable(&context, given(args.id.as_ref())?)?)?;
    let redactor = args.redact.then(Redactor::default);
    let path = write_page(&context, &mut reader, redactor.as_ref())?;
    say_masked(global, redactor.as_ref());
    show(global, &path, output)
}

/// Writes the page of a session, and returns its path.
pub(super) fn write_page(
    context: &CommandContext<'_>,
    reader: &mut LogReader,
    redact: Option<&Redactor>,
) -> Result<PathBuf, Failure> {
    let path = page_file::page(&page_file::name_of(reader.id()))?;
    let mut file = PrivateFile::create(&path)?;
    let tool_branch = context.tool_branch(reader)?;
    let options = Options {
        redact,
        tool_branch: tool_branch.as_ref(),
        ..Options::default()
    };
    export::write(reader, Format::Html, options, &mut |text| file.write(text))?;
    file.finish()?;
    Ok(path)
}

/// Shows a page in the browser, and says where it is.
pub(super) fn show(global: &Global, path: &Path, output: &mut Output) -> Result<(), Failure> {
    output.line(printable(&path.to_string_lossy()))?;
    if !page_file::show(path) {
        note(
            global,
            "no browser can be opened here",
            Some("open this file in one"),
        );
    }
    Ok(())
}
