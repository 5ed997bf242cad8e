//! `rejoin list`.

use std::path::Path;

use anstyle::Style;
use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::sources::{self, name_of};
use crate::cli::term::{ACTIVE, FAINT, Look, Output, WAITING, count, one_line};
use crate::cli::values;
use rejoin::engine::known::{all_names, title};
use rejoin::history::last_used;
use rejoin::index::{
    Archived, Filter, ListError, Listed, PINNED, SessionPage, TOOL_BRANCH, ToolBranch,
};
use rejoin::record::{ActivityState, AgentSessionId};
use rejoin::sys::{Timestamp, grouped, path};

use super::context::CommandContext;
use super::named::{ShortIds, UNTITLED};
use super::search::since;
use super::table::{ON_A_SCREEN, TableRow, print_table};

/// How many sessions are queried at once.
const PAGE: usize = 10_000;

/// What to list.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Only sessions with this agent, by any of its names, such as `codex`; may be repeated.
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Only what was used since then: an age such as 7d, a date, `today`, `yesterday` or a time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only sessions with this working directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// At most N sessions. By default a terminal shows 20.
    #[arg(long, short = 'n', value_name = "N", value_parser = values::limit)]
    limit: Option<usize>,
    /// Every session, also on a terminal.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print a JSON array.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

impl Args {
    fn is_for_people(&self, output: &Output) -> bool {
        output.is_terminal() && !self.json
    }
}

/// Prints an empty list.
pub(super) fn empty(as_json: bool, output: &mut Output) -> Result<(), Failure> {
    if as_json {
        output.json(&json!([]))
    } else {
        Ok(())
    }
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let filter = Filter {
        cwd: folder(args.cwd.as_deref())?,
        agents: all_names(&args.agent),
        since: since(context, args.since.as_deref(), output)?,
        archived: Archived::Include,
        ..Filter::default()
    };
    let for_people = args.is_for_people(output);
    let usual = if for_people && !args.all {
        ON_A_SCREEN
    } else {
        usize::MAX
    };
    let limit = args.limit.unwrap_or(usual);
    let (mut listed, total) = read(context, &filter, limit)?;
    if args.json {
        add_agent_ids(context, &mut listed)?;
        output.json(&listed.iter().map(as_json).collect())?;
    } else if for_people {
        print(context, &listed, output)?;
        if args.limit.is_none() {
            more(listed.len(), total, "-n N or --all shows more", output)?;
        }
        if let Some(text) = kept_elsewhere(&listed) {
            output.line(output.look().paint(FAINT, &text))?;
        }
        if let Some(branch) = listed
            .iter()
            .find_map(|session| session.tool_branch.as_ref())
        {
            let text = format!(
                "{}: turns since it was continued here; `rejoin show ID --all-branches` shows them",
                turns_since(branch)
            );
            output.line(output.look().paint(FAINT, &text))?;
        }
    } else {
        for session in &listed {
            output.line(match &context.live {
                Some(_) => line_with_tool(session),
                None => line(session),
            })?;
            if output.closed() {
                break;
            }
        }
    }
    if listed.is_empty() {
        match filter.cwd {
            None if args.agent.is_empty() && args.since.is_none() => context.no_sessions(),
            None => context.nothing("there is no session of this agent or time"),
            Some(cwd) => context.nothing(&format!("there is no session that works in {cwd}")),
        }
    }
    Ok(())
}

/// Says how many of these sessions other tools keep; nothing if there are none.
fn kept_elsewhere(listed: &[Listed]) -> Option<String> {
    let kept = listed.iter().filter(|one| one.summary.tool.is_some());
    let which = match kept.count() {
        0 => return None,
        1 if listed.len() == 1 => "this one is".to_owned(),
        all if all == listed.len() => "all of these are".to_owned(),
        1 => "1 of these is".to_owned(),
        some => format!("{} of these are", grouped(some)),
    };
    Some(format!(
        "{which} kept by other tools and only read here; `rejoin import` copies them"
    ))
}

/// The first sessions of a list, and how many it has, if that is known. Conversations of other tools
/// are among them, if any are shown.
pub(in crate::cli) fn read(
    context: &CommandContext<'_>,
    filter: &Filter,
    limit: usize,
) -> Result<(Vec<Listed>, Option<usize>), Failure> {
    let catalog = context.listed()?;
    pages(limit, |cursor, most| {
        context.reading_from(catalog, |catalog| catalog.list(filter, cursor, most))
    })
}

/// The first sessions of a list that is read page by page, each from a cursor with at most so many entries;
/// and how many it has, if that is known.
pub(super) fn pages(
    limit: usize,
    read: impl Fn(Option<&str>, usize) -> Result<SessionPage, ListError>,
) -> Result<(Vec<Listed>, Option<usize>), Failure> {
    let (mut listed, mut total) = (Vec::new(), None);
    let mut cursor: Option<String> = None;
    while listed.len() < limit {
        let most = PAGE.min(limit - listed.len());
        let page = read(cursor.as_deref(), most)
            .map_err(|error| Failure::new(format!("cannot list sessions: {error}")))?;
        listed.extend(page.sessions);
        total = page.total.and_then(|total| usize::try_from(total).ok());
        cursor = page.next_cursor;
        if cursor.is_none() {
            total = Some(listed.len());
            break;
        }
    }
    Ok((listed, total))
}

/// Prints sessions for people.
fn print(
    context: &CommandContext<'_>,
    listed: &[Listed],
    output: &mut Output,
) -> Result<(), Failure> {
    let (look, short) = (output.look().clone(), context.short(listed)?);
    let now = context.sys.clock.now();
    let rows = listed
        .iter()
        .map(|session| row_with_state(context, session, short, &look, now));
    print_table(&rows.collect::<Vec<_>>(), "Used", output)
}

/// A session as people see it in a list.
fn row_with_state(
    context: &CommandContext<'_>,
    session: &Listed,
    short: ShortIds,
    look: &Look,
    now: Timestamp,
) -> TableRow {
    let (state, state_style) = state(context, session);
    TableRow {
        state,
        state_style,
        ..row(session, short, look, now)
    }
}

/// Says that there are more, and how to see them.
pub(super) fn more(
    shown: usize,
    total: Option<usize>,
    how: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let shown_of = match total {
        Some(total) if shown >= total => return Ok(()),
        Some(total) => format!("{} of {}", grouped(shown), count(total, "session")),
        None => format!("the newest {} of many more", count(shown, "session")),
    };
    let text = format!("{shown_of}; {how}");
    let text = output.look().paint(FAINT, &text);
    output.line(text)
}

/// A session as people see it in a list, without what it is doing.
pub(super) fn row(session: &Listed, short: ShortIds, look: &Look, now: Timestamp) -> TableRow {
    let summary = &session.summary;
    let used = Timestamp::parse(last_used(summary));
    TableRow {
        title: one_line(summary.title.as_deref().unwrap_or(UNTITLED)),
        id: short.id(&session.id),
        agent: one_line(title(&summary.source)),
        when: used.map_or(String::new(), |at| look.when(at, now)),
        folder: one_line(&look.folder(&summary.cwd)),
        ..TableRow::default()
    }
}

/// The state of a session, and what can be done with it; empty if that is nothing special. Asks
/// whether a process has it open.
pub(super) fn state(context: &CommandContext<'_>, session: &Listed) -> (String, Style) {
    let (text, style) = activity(context, session);
    let pinned = session.is_pinned.then(|| PINNED.to_owned());
    let branch = session.tool_branch.as_ref().map(turns_since);
    let texts = [Some(text), pinned, branch].into_iter().flatten();
    let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
    (texts.join(", "), style)
}

/// What a session is doing, or who has it open.
fn activity(context: &CommandContext<'_>, session: &Listed) -> (String, Style) {
    let summary = &session.summary;
    if summary.tool.is_some() {
        return Default::default();
    }
    let holder = || context.store.holder(&session.id);
    match context.catalog.state(session) {
        ActivityState::Running => ("running".to_owned(), ACTIVE),
        ActivityState::RequiresAction => ("waiting".to_owned(), WAITING),
        ActivityState::Idle => match (holder(), summary.archived) {
            (Some(holder), _) => {
                let open = holder
                    .client
                    .map(|client| format!("open in {}", one_line(&client)));
                (open.unwrap_or_else(|| "open elsewhere".to_owned()), ACTIVE)
            }
            (None, true) => ("archived".to_owned(), FAINT),
            (None, false) => Default::default(),
        },
    }
}

/// The turns that a tool has written to a conversation since it was continued here, in a few words.
fn turns_since(branch: &ToolBranch) -> String {
    format!("+{} in {}", branch.turns, tool_title(branch))
}

/// The tool with a branch, as people know it.
pub(super) fn tool_title(branch: &ToolBranch) -> &str {
    title(sources::agent_of(&branch.tool).unwrap_or(&branch.tool))
}

/// The folder of `--cwd`, as sessions name it.
pub(in crate::cli) fn folder(cwd: Option<&Path>) -> Result<Option<String>, Failure> {
    let cwd = cwd.map(std::path::absolute).transpose();
    let cwd =
        cwd.map_err(|error| Failure::new(format!("cannot resolve the folder of --cwd: {error}")))?;
    Ok(cwd.map(|cwd| path::normalize(&cwd.to_string_lossy())))
}

/// A session on one line, for programs, with the tool that it is from.
fn line_with_tool(session: &Listed) -> String {
    format!("{:<12} {}", tool_of(session), line(session))
}

/// The name by which options take the tool or the agent of a session, for programs.
pub(super) fn tool_of(session: &Listed) -> String {
    let source = &session.summary.source;
    name_of(source).map_or_else(|| one_line(source), str::to_owned)
}

/// A session on one line, for programs.
pub(super) fn line(session: &Listed) -> String {
    let summary = &session.summary;
    let title = summary.title.as_deref().unwrap_or(UNTITLED);
    let prompts = match summary.counted_prompts() {
        None => "-".to_owned(),
        Some(prompts) => count(prompts as usize, "prompt"),
    };
    format!(
        "{}  {}  {prompts:>12}  {}  {}",
        session.id,
        minute(last_used(summary)),
        one_line(&summary.cwd),
        one_line(title)
    )
}

/// A time without seconds, for programs: enough to distinguish what a user did. JSON has the rest.
pub(super) fn minute(at: &str) -> String {
    at.get(..16).unwrap_or_default().replace('T', " ")
}

/// Adds the agents' ids to sessions of a list, which [`as_json`] has.
pub(in crate::cli) fn add_agent_ids(
    context: &CommandContext<'_>,
    listed: &mut [Listed],
) -> Result<(), Failure> {
    let added = context.catalog.add_agent_ids(listed);
    added.map_err(|error| Failure::new(format!("cannot list sessions: {error}")))
}

/// A session for programs.
pub(in crate::cli) fn as_json(session: &Listed) -> Value {
    let summary = &session.summary;
    let mut object = json!({
        "sessionId": session.id.as_str(),
        "title": summary.title,
        "cwd": summary.cwd,
        "additionalDirectories": summary.additional_directories,
        "createdAt": summary.created_at,
        "updatedAt": summary.updated_at,
        "source": summary.source,
        "agentSessions": summary.agent_sessions().iter().map(AgentSessionId::as_json).collect::<Value>(),
        "prompts": summary.counted_prompts(),
        "bytes": summary.tool.is_none().then_some(summary.scanned),
    });
    if let Some(branch) = &session.tool_branch {
        object[TOOL_BRANCH] = json!(branch);
    }
    if session.is_pinned {
        object[PINNED] = true.into();
    }
    object
}
