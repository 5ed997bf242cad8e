//! `rejoin sessions list`.

use serde_json::{Value, json};

use crate::cli::count::{count, number};
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::history::last_used;
use crate::index::{Archived, Filter, Listed, Search};
use crate::sys::path;

use super::context::Context;

/// How many sessions are queried at once.
const PAGE: usize = 1000;

/// What to list.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
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

/// Prints an empty list.
pub(super) fn empty(as_json: bool, output: &mut Output) -> Result<(), Failure> {
    if as_json {
        output.json(&json!([]))
    } else {
        Ok(())
    }
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    show(context, args, None, output)
}

/// Lists the sessions, or those that match a search.
pub(super) fn show(
    context: &Context<'_>,
    args: &Args,
    search: Option<Search>,
    output: &mut Output,
) -> Result<(), Failure> {
    let cwd = args
        .cwd
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .map_err(|error| Failure::new(format!("cannot resolve the folder of --cwd: {error}")))?;
    let filter = Filter {
        cwd: cwd.map(|cwd| path::normalize(&cwd.to_string_lossy())),
        archived: Archived::Include,
        search,
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
            output.line(line(session))?;
            if output.closed() {
                break;
            }
        }
    }
    if listed.is_empty() && limit > 0 {
        let folder = filter.cwd.map(|cwd| format!(" that works in {cwd}"));
        let folder = folder.unwrap_or_default();
        match filter.search {
            Some(_) => context.nothing(&format!("there is no session{folder} with these words")),
            None if folder.is_empty() => context.no_sessions(),
            None => context.nothing(&format!("there is no session{folder}")),
        }
    }
    Ok(())
}

/// A session on one line.
pub(super) fn line(session: &Listed) -> String {
    let summary = &session.summary;
    // Minutes are enough to distinguish a user's sessions; JSON has the rest.
    let when = last_used(summary).get(..16).unwrap_or_default();
    let title = summary.title.as_deref().unwrap_or("(no text)");
    let prompts = count(summary.prompts as usize, "prompt");
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

fn as_json(session: &Listed) -> Value {
    let summary = &session.summary;
    let mut json = json!({
        "sessionId": session.id.as_str(),
        "title": summary.title,
        "cwd": summary.cwd,
        "additionalDirectories": summary.additional_directories,
        "createdAt": summary.created_at,
        "updatedAt": summary.updated_at,
        "source": summary.source,
        "prompts": summary.prompts,
        "bytes": summary.scanned,
    });
    if let Some(snippet) = &session.snippet {
        json["snippet"] = snippet.as_str().into();
    }
    json
}
