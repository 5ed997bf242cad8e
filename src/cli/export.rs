//! `rejoin export`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use rejoin::engine::known::title;
use rejoin::export::{self, Format, Options};
use rejoin::redact::Redactor;
use rejoin::store::LogReader;

use super::exit::Failure;
use super::global::Global;
use super::page_file::PrivateFile;
use super::sessions::context::CommandContext;
use super::sessions::id::{find_readable, given};
use super::sessions::named::SESSION_OR_LIST;
use super::sources;
use super::term::{Output, masked_keys, note, printable, printable_json};
use super::values::number;

/// What to export.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "ID", help = SESSION_OR_LIST)]
    pub(super) id: Option<String>,
    /// The form; by default what the name of the file says, otherwise Markdown.
    #[arg(long, value_name = "FORMAT")]
    format: Option<ExportFormat>,
    /// Write to this file, which only you can read, instead of to stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only the last N turns.
    #[arg(long, value_name = "N", value_parser = number)]
    last: Option<usize>,
    /// Mask keys and tokens, and say how many.
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportFormat {
    /// Markdown.
    Md,
    /// A self-contained page for a browser.
    Html,
    /// The updates that a load would send, with what is known of the session.
    Json,
}

impl ExportFormat {
    /// The form that the options or the name of the file ask for. Names of other forms are refused.
    fn of(args: &Args) -> Result<Self, Failure> {
        if let Some(format) = args.format {
            return Ok(format);
        }
        let extension = args.output.as_ref().and_then(|file| file.extension());
        let named = extension.map(|name| name.to_string_lossy().to_ascii_lowercase());
        match named.as_deref() {
            None | Some("md" | "markdown" | "txt") => Ok(Self::Md),
            Some("html" | "htm") => Ok(Self::Html),
            Some("json") => Ok(Self::Json),
            Some(other) => Err(Failure::usage(format!("there is no export as .{other}"))
                .hint("`--format md`, `html` or `json` says what is written to such a file")),
        }
    }

    fn format(self) -> Format {
        match self {
            Self::Md => Format::Markdown,
            Self::Html => Format::Html,
            Self::Json => Format::Json,
        }
    }
}

/// Writes a conversation as Markdown to a file.
pub(super) fn write_markdown(reader: &mut LogReader, path: &Path) -> Result<(), Failure> {
    let mut file = PrivateFile::create(path)?;
    let options = Options {
        title_of: Some(title),
        ..Options::default()
    };
    export::write(reader, Format::Markdown, options, &mut |text| {
        file.write(&printable(text))
    })?;
    file.finish()
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let form = ExportFormat::of(args)?;
    let context = CommandContext::of_sources(global, &args.sources)?;
    let mut reader = context.read(&find_readable(&context, given(args.id.as_ref())?)?)?;
    let tool_branch = context.tool_branch(&reader)?;
    let redactor = args.redact.then(Redactor::default);
    let options = Options {
        redact: redactor.as_ref(),
        last: args.last.map(|last| last as u64),
        tool_branch: tool_branch.as_ref(),
        title_of: Some(title),
    };
    let safe = |text: &str| match form {
        ExportFormat::Md => printable(text),
        ExportFormat::Html => text.to_owned(),
        ExportFormat::Json => printable_json(text),
    };
    if let Some(path) = &args.output {
        let mut file = PrivateFile::create(path)?;
        export::write(&mut reader, form.format(), options, &mut |text| {
            file.write(&safe(text))
        })?;
        file.finish()?;
        say_masked(global, redactor.as_ref());
        return Ok(());
    }
    if output.is_terminal() && matches!(form, ExportFormat::Html) {
        let why = "a page is for a browser, not for a terminal";
        return Err(Failure::usage(why).hint("add `--output FILE`, or use `rejoin open`"));
    }
    export::write(&mut reader, form.format(), options, &mut |text| {
        output.raw(&safe(text))
    })?;
    say_masked(global, redactor.as_ref());
    Ok(())
}

/// Says how many keys and tokens were masked, if they were to be.
pub(super) fn say_masked(global: &Global, redactor: Option<&Redactor>) {
    if let Some(redactor) = redactor {
        note(global, &masked_keys(redactor.masked()), None);
    }
}
