//! Finds the sessions that the command line names.

use crate::cli::exit::{Failure, NOT_FOUND, USAGE};
use rejoin::engine::known::title;
use rejoin::index::{Archived, Catalog, Filter, ListError, SessionPage};
use rejoin::store::Trashed;
use rejoin::sys::SessionId;

use super::context::{CommandContext, busy_with_tools};
use super::named::{Candidate, ChosenSession, choose, unique_part};
use super::open_sessions::open_sessions;

/// How many sessions are queried at once.
const PAGE: usize = 1000;

/// The session with this name: its ID, one of its agents' IDs, a unique beginning or end of these,
/// `last`, or a unique part of its title.
pub(in crate::cli) fn find(context: &CommandContext<'_>, text: &str) -> Result<SessionId, Failure> {
    if let Some(id) = find_stored(context, text)?
        && context.store.len_of(&id)?.is_some()
    {
        return Ok(id);
    }
    match find_of_tools(context, text)? {
        Some(id) => Err(read_only(context, &id)),
        None => Err(unknown(context, text)),
    }
}

/// The session with this name as for [`find`], or the conversation of another tool, for commands
/// that show one.
pub(in crate::cli) fn find_readable(
    context: &CommandContext<'_>,
    text: &str,
) -> Result<SessionId, Failure> {
    if let Some(id) = find_stored(context, text)? {
        return Ok(id);
    }
    find_of_tools(context, text)?.ok_or_else(|| unknown(context, text))
}

/// The name that a command was given for a session.
pub(in crate::cli) fn given(text: Option<&String>) -> Result<&str, Failure> {
    text.map(String::as_str).ok_or_else(|| {
        let hint =
            "name it by its ID, `last` or a part of its title; in a terminal, the list is shown";
        Failure::usage("no session is named").hint(hint)
    })
}

/// The session with this name, looked for among those that a process has open and then among all, as for
/// [`find`].
pub(in crate::cli) fn find_open(
    context: &CommandContext<'_>,
    text: &str,
) -> Result<SessionId, Failure> {
    if SessionId::parse(text).is_none() {
        let open = open_sessions(context)?.into_iter();
        let mut open: Vec<_> = open.map(|session| session.listed).collect();
        let added = context.catalog.add_agent_ids(&mut open);
        added.map_err(|error| failed(&error))?;
        let open: Vec<_> = open.into_iter().map(Candidate::listed).collect();
        if let Some(id) = pick(context, text, &open)? {
            return Ok(id);
        }
    }
    find(context, text).map_err(|failure| match failure.code() {
        // Several that are not open are no choice.
        USAGE => Failure::with_code(NOT_FOUND, format!("no session {text:?} is open"))
            .hint("`rejoin ps` lists what is open"),
        _ => failure,
    })
}

/// The conversation of another tool with this name, if any are shown.
fn find_of_tools(context: &CommandContext<'_>, text: &str) -> Result<Option<SessionId>, Failure> {
    let Some(tools) = context.tools()? else {
        return Ok(None);
    };
    if let Some(id) = SessionId::parse(text) {
        return Ok(tools.ids()?.contains(&id).then_some(id));
    }
    let listed = busy_with_tools(|| candidates(&tools.catalog, true));
    pick(context, text, &listed.map_err(|error| failed(&error))?)
}

/// The failure for a command that would change a conversation of another tool.
fn read_only(context: &CommandContext<'_>, id: &SessionId) -> Failure {
    let tools = context.tools().ok().flatten();
    let tool = tools.and_then(|tools| tools.tool_of(id));
    let what = tool.map_or("another tool", |tool| title(tool.agent));
    let import = tool.map_or_else(String::new, |tool| format!(" {}", tool.name));
    Failure::new(format!(
        "{id} is a conversation of {what}, which rejoin only reads"
    ))
    .hint(format!(
        "`rejoin import{import}` copies that tool's conversations into the store"
    ))
}

/// The session of the store with this name as for [`find`], also if it is only in the trash.
pub(super) fn find_anywhere(
    context: &CommandContext<'_>,
    text: &str,
) -> Result<SessionId, Failure> {
    if let Some(id) = find_stored(context, text)? {
        return Ok(id);
    }
    let trashed = find_trashed(context, &context.store.trashed()?, text)?;
    trashed.ok_or_else(|| nowhere(text))
}

/// The session in the trash with this name; `last` is the one that was deleted last.
pub(super) fn find_trashed(
    context: &CommandContext<'_>,
    trashed: &[Trashed],
    text: &str,
) -> Result<Option<SessionId>, Failure> {
    if let Some(id) = SessionId::parse(text) {
        let is_there = trashed.iter().any(|trashed| trashed.id == id);
        return Ok(is_there.then_some(id));
    }
    let ids = trashed.iter().map(|trashed| &trashed.id);
    if let Some(id) = unique_part(ids, text) {
        return Ok(Some(id.clone()));
    }
    let mut newest: Vec<&Trashed> = trashed.iter().collect();
    newest.sort_by_key(|trashed| std::cmp::Reverse(trashed.at));
    let mut candidates: Vec<Candidate> = Vec::new();
    for trashed in newest {
        if candidates.iter().all(|known| known.id != trashed.id) {
            candidates.push(Candidate::trashed(&context.store, trashed));
        }
    }
    pick(context, text, &candidates)
}

fn find_stored(context: &CommandContext<'_>, text: &str) -> Result<Option<SessionId>, Failure> {
    if let Some(id) = SessionId::parse(text) {
        return Ok(Some(id));
    }
    let ids = context.store.ids()?;
    if let Some(id) = unique_part(&ids, text) {
        return Ok(Some(id.clone()));
    }
    let mut listed = context
        .reading(|catalog| candidates(catalog, false))
        .map_err(|error| failed(&error))?;
    // Sessions without a prompt are in no list.
    listed.extend(ids.into_iter().map(Candidate::unlisted));
    pick(context, text, &listed)
}

/// The sessions in a list, the last used first: those of the store, or those of other tools.
pub(super) fn candidates(catalog: &Catalog, of_tools: bool) -> Result<Vec<Candidate>, ListError> {
    let filter = Filter {
        archived: Archived::Include,
        ..Filter::default()
    };
    let mut candidates = Vec::new();
    let mut cursor = None;
    loop {
        let mut page: SessionPage = catalog.list(&filter, cursor.as_deref(), PAGE)?;
        catalog.add_agent_ids(&mut page.sessions)?;
        let listed = page.sessions.into_iter();
        let wanted = listed.filter(|listed| listed.summary.tool.is_some() == of_tools);
        candidates.extend(wanted.map(Candidate::listed));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(candidates);
        }
    }
}

/// The one that the name means, if it means any.
fn pick(
    context: &CommandContext<'_>,
    text: &str,
    candidates: &[Candidate],
) -> Result<Option<SessionId>, Failure> {
    match choose(text, candidates) {
        ChosenSession::None => Ok(None),
        ChosenSession::One(id) => Ok(Some(id.clone())),
        ChosenSession::Several(several) => {
            Err(several.failure(text, candidates, context.sys.clock.now()))
        }
    }
}

fn unknown(context: &CommandContext<'_>, text: &str) -> Failure {
    let trashed = context.store.trashed().unwrap_or_default();
    match find_trashed(context, &trashed, text) {
        Ok(Some(id)) => there_is_none(text).hint(format!(
            "it is in the trash: `rejoin restore {id}` brings it back"
        )),
        _ => nowhere(text),
    }
}

/// The failure for a name that is not in the trash either.
fn nowhere(text: &str) -> Failure {
    there_is_none(text).hint("run `rejoin list` to see available sessions")
}

fn there_is_none(text: &str) -> Failure {
    Failure::with_code(NOT_FOUND, format!("there is no session {text:?}"))
}

fn failed(error: &ListError) -> Failure {
    Failure::new(format!("cannot look up sessions: {error}"))
}
