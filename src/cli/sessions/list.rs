//! `rejoin sessions list`.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::cli::count::{count, number};
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::cli::sources::{Choice, agent_of, name_of};
use crate::history::last_used;
use crate::index::{Archived, Filter, Listed};
use crate::sources::SOURCES;
use crate::sys::path;

use super::context::Context;

/// How many sessions are queried at once.
const PAGE: usize = 1000;

/// What to list.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also conversations that other tools keep: of every tool (`all`), or only those of one, such
    /// as `codex`, imported or not.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    pub(super) source: Option<String>,
    /// Only sessions with this working directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// At most N sessions.
    #[arg(long, short = 'n', value_name = "N", value_parser = number)]
    limit: Option<usize>,
    /// Print a JSON array.
    #[arg(long)]
    pub(super) json: bool,
}

fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once("all").chain(SOURCES.iter().map(|source| source.name))
}

/// The same sessions, and the conversations of the tools that were chosen.
pub(super) fn with_tools<'a>(context: Context<'a>, args: &Args) -> Result<Context<'a>, Failure> {
    let Some(source) = &args.source else {
        return Ok(context);
    };
    let choice: Choice = source.parse().map_err(Failure::usage)?;
    let Some(sources) = choice.live(false) else {
        let unknown = "cannot find the conversations of other tools: the home folder is unknown";
        return Err(Failure::new(unknown));
    };
    let context = Context {
        catalog: context.catalog.with_tools(sources.clone()),
        ..context
    };
    let scanned = context.reading(|catalog| sources.scan(&context.store, catalog));
    scanned.map_err(|error| Failure::new(format!("cannot list conversations: {error}")))?;
    Ok(context)
}

/// Prints an empty list.
pub(super) fn empty(as_json: bool, output: &mut Output) -> Result<(), Failure> {
    if as_json {
        output.json(&json!([]))
    } else {
        Ok(())
    }
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let filter = Filter {
        cwd: folder(args.cwd.as_deref())?,
        agent: args.source.as_deref().and_then(agent_of).map(str::to_owned),
        archived: Archived::Include,
        ..Filter::default()
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut listed = Vec::new();
    let mut cursor = None;
    while listed.len() < limit {
        let most = PAGE.min(limit - listed.len());
        let page = context
            .reading(|catalog| catalog.list(&filter, cursor.as_deref(), most))
            .map_err(|error| Failure::new(format!("cannot list sessions: {error}")))?;
        listed.extend(page.sessions);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if args.json {
        output.json(&listed.iter().map(as_json).collect())?;
    } else {
        for session in &listed {
            output.line(match &args.source {
                Some(_) => line_with_tool(session),
                None => line(session),
            })?;
            if output.closed() {
                break;
            }
        }
    }
    if listed.is_empty() && limit > 0 {
        match filter.cwd {
            None => context.no_sessions(),
            Some(cwd) => context.nothing(&format!("there is no session that works in {cwd}")),
        }
    }
    Ok(())
}

/// The folder of `--cwd`, as sessions name it.
pub(in crate::cli) fn folder(cwd: Option<&Path>) -> Result<Option<String>, Failure> {
    let cwd = cwd.map(std::path::absolute).transpose();
    let cwd =
        cwd.map_err(|error| Failure::new(format!("cannot resolve the folder of --cwd: {error}")))?;
    Ok(cwd.map(|cwd| path::normalize(&cwd.to_string_lossy())))
}

/// A session on one line, with the tool that it is from.
fn line_with_tool(session: &Listed) -> String {
    let source = &session.summary.source;
    let tool = name_of(source).map_or_else(|| one_line(source), str::to_owned);
    format!("{tool:<12} {}", line(session))
}

/// A session on one line.
pub(super) fn line(session: &Listed) -> String {
    let summary = &session.summary;
    // Minutes are enough to distinguish a user's sessions; JSON has the rest.
    let when = last_used(summary).get(..16).unwrap_or_default();
    let title = summary.title.as_deref().unwrap_or("(no text)");
    let prompts = match (summary.prompts, &summary.tool) {
        // They were not counted yet.
        (0, Some(_)) => "-".to_owned(),
        (prompts, _) => count(prompts as usize, "prompt"),
    };
    format!(
        "{}  {}  {prompts:>12}  {}  {}",
        session.id,
        when.replace('T', " "),
        one_line(&summary.cwd),
        one_line(title)
    )
}

/// Text of a session, on one line.
pub(super) fn one_line(text: &str) -> String {
    printable(&text.replace(['\n', '\t'], " "))
}

pub(super) fn as_json(session: &Listed) -> Value {
    let summary = &session.summary;
    json!({
        "sessionId": session.id.as_str(),
        "title": summary.title,
        "cwd": summary.cwd,
        "additionalDirectories": summary.additional_directories,
        "createdAt": summary.created_at,
        "updatedAt": summary.updated_at,
        "source": summary.source,
        "prompts": summary.prompts,
        "bytes": summary.scanned,
    })
}
