//! `rejoin sessions list`.

use serde_json::{Value, json};

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::history::last_used;
use crate::index::{Archived, Catalog, Filter, Listed, Search};
use crate::sys::path;

/// How many sessions are asked for at once.
const PAGE: usize = 1000;

/// What to list.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only sessions that work in this folder.
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// At most so many.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    if args.json {
        output.json(&json!([]))
    } else {
        Ok(())
    }
}

pub(super) fn run(catalog: &Catalog, args: &Args, output: &mut Output) -> Result<(), Failure> {
    show(catalog, args, None, output)
}

/// Lists the sessions, or those in which something was said.
pub(super) fn show(
    catalog: &Catalog,
    args: &Args,
    search: Option<Search>,
    output: &mut Output,
) -> Result<(), Failure> {
    let cwd = args
        .cwd
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .map_err(|error| {
            Failure::new(format!(
                "cannot tell which folder is meant by --cwd: {error}"
            ))
        })?;
    let filter = Filter {
        cwd: cwd.map(|cwd| path::normalize(&cwd.to_string_lossy())),
        archived: Archived::Include,
        search,
        since: None,
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut listed = Vec::new();
    let mut cursor = None;
    while listed.len() < limit {
        let page = catalog
            .list(&filter, cursor.as_deref(), PAGE.min(limit - listed.len()))
            .map_err(|error| Failure::new(format!("cannot list sessions: {error}")))?;
        listed.extend(page.sessions);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if args.json {
        return output.json(&listed.iter().map(as_json).collect());
    }
    for session in &listed {
        output.line(line(session))?;
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// A session on one line.
pub(super) fn line(session: &Listed) -> String {
    let summary = &session.summary;
    // Minutes are enough to tell one's sessions apart; JSON has the rest.
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
