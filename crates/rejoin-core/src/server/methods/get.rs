//! `session/get`: the conversation of a session, a page of turns at a time, without loading it.

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::conversation::TurnPosition;
use crate::engine::AgentListQuery;
use crate::history::entry::{entry, messages};
use crate::history::query::{Begin, TurnsQuery};
use crate::history::{TurnsError, count, page};
use crate::index::TOOL_BRANCH;
use crate::json::string_member;
use crate::server::error::{self, Error};
use crate::server::tools::ToolSessions;
use crate::session::{Deps, ListedTools, Refusal, Registry, Reply, Request as SessionRequest};
use crate::store::LogReader;
use crate::sys::SessionId;
use crate::transport::{IncomingRequest, Load};

use super::action::RequestAction;
use super::agent_list::{PAGES, TIMEOUT};
use super::context::ConnectionContext;
use super::fork::imported;
use super::get_part::{Params, Wanted};
use super::open::find;
use super::params::decode;
use super::result::damage;
use super::workspace::{McpServersRule, existing};

pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let mut params = decode::<Params>(&request.params)?;
    let found = find(context, &params.session_id)?;
    let wanted = Wanted::of(&mut params, &found.0).map_err(error::invalid_params)?;
    let all_branches = params.all_branches.unwrap_or_default();
    Ok(read(
        context,
        request,
        params.session_id,
        found,
        (wanted, all_branches),
    ))
}

/// Reads a part of the session that the client calls `name`: `id`, which is imported first if only the
/// wrapped agent has it. If `all_branches`, with what rewinds have undone and what its tool has written since
/// it was continued here.
pub(super) fn read(
    context: &ConnectionContext,
    request: &IncomingRequest,
    name: String,
    (id, import): (SessionId, bool),
    (wanted, all_branches): (Wanted, bool),
) -> RequestAction {
    let name = if import {
        name
    } else {
        context.answered_as(name, &id)
    };
    let (registry, tools) = (context.registry().clone(), context.tools());
    let cancellation = request.responder.cancellation();
    RequestAction::Later(Box::pin(async move {
        // Earlier requests have at least begun.
        registry.barrier().await;
        let deps = registry.deps().clone();
        if import && let Err(error) = import_from_agent(&registry, &id, &name).await {
            return (Err(error), None);
        }
        let wire = deps.client.clone();
        // The page is in memory until it is written.
        let room = tokio::select! {
            room = wire.flow.read(Load::Heavy) => room,
            () = cancellation.cancelled() => {
                return (Err(error::refused(&name, Refusal::Cancelled)), None);
            }
        };
        let room = match room {
            Ok(room) => room,
            Err(full) => return (Err(error::overloaded(full)), None),
        };
        let read = tokio::task::spawn_blocking(move || {
            let session = SessionReading {
                deps: &deps,
                tools: tools.as_deref(),
                id: &id,
                name: &name,
                all_branches,
                cancelled: &|| cancellation.is_cancelled() || wire.writer.is_gone(),
            };
            session.read(&wanted)
        });
        let result = read
            .await
            .unwrap_or_else(|_| Err(error::internal("the session could not be read")));
        (result, Some(room))
    }))
}

/// Imports a session that only the wrapped agent has, so that it can be read.
async fn import_from_agent(registry: &Registry, id: &SessionId, name: &str) -> Result<(), Error> {
    let Some(cwd) = folder(registry.deps(), name).await else {
        return Err(error::not_found(name));
    };
    let params = json!({ "sessionId": name, "cwd": cwd, "mcpServers": [] });
    let config = existing(&params.to_string(), McpServersRule::Optional)?;
    if let Ok(Err(refusal)) = imported(registry, id, config).await {
        return Err(error::refused(name, refusal));
    }
    // The client has not opened it.
    let unheard = Reply::new(registry.requests().begin(), CancellationToken::new(), drop);
    registry.send(id, SessionRequest::Close(unheard));
    registry.barrier().await;
    Ok(())
}

/// The working directory of a session that the agent lists.
async fn folder(deps: &Deps, name: &str) -> Option<String> {
    let agent = deps.engine.upstream()?;
    let until = Instant::now() + TIMEOUT;
    let mut cursor = None;
    for _ in 0..PAGES {
        let asked = AgentListQuery {
            cwd: None,
            cursor: cursor.clone(),
        };
        let page = timeout_at(until, agent.sessions(asked)).await;
        let page = page.ok()?.ok()?;
        let is_it = |entry: &&String| string_member(entry, "sessionId").as_deref() == Some(name);
        if let Some(entry) = page.sessions.iter().find(is_it) {
            return string_member(entry, "cwd");
        }
        let next = page
            .next_cursor
            .filter(|next| Some(next) != cursor.as_ref());
        cursor = Some(next?);
    }
    None
}

/// A session that is being read.
pub(super) struct SessionReading<'a> {
    pub(super) deps: &'a Deps,
    /// The other tools whose conversations are listed.
    pub(super) tools: Option<&'a ToolSessions>,
    pub(super) id: &'a SessionId,
    /// Its name for the client.
    pub(super) name: &'a str,
    /// Whether what rewinds have undone is read, too, and what its tool has written since it was continued
    /// here.
    all_branches: bool,
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

impl SessionReading<'_> {
    /// The result, as text: it contains content as it is in the log.
    fn read(&self, wanted: &Wanted) -> Result<String, Error> {
        if (self.cancelled)() {
            return Err(self.refused(Refusal::Cancelled));
        }
        if let Some(tools) = self.tools {
            tools.follow(self.id);
        }
        if self.deps.library.has_expired(self.id) {
            return Err(self.refused(Refusal::NotFound));
        }
        match wanted {
            Wanted::Turns(query) => self.turns(query).map_err(|refusal| self.refused(refusal)),
            Wanted::Cursors(from) => self.cursors(*from).map_err(|refusal| self.refused(refusal)),
            Wanted::Call(call) => self.call(call),
            Wanted::Part { offset, length } => self.part(*offset, *length),
        }
    }

    pub(super) fn refused(&self, refusal: Refusal) -> Error {
        error::refused(self.name, refusal)
    }

    pub(super) fn log(&self) -> Result<LogReader, Refusal> {
        let store = self.deps.library.store.as_ref().ok_or(Refusal::NotFound)?;
        if !self.all_branches {
            return Ok(store.read(self.id)?);
        }
        let log = store.read_all(self.id)?;
        match self.tools {
            Some(tools) => Ok(tools.with_branch(log)?),
            None => Ok(log),
        }
    }

    /// The members that each result has.
    pub(super) fn session(&self) -> Map<String, Value> {
        let catalog = self.deps.library.catalog.as_ref();
        let mut session = Map::new();
        session.insert("sessionId".to_owned(), self.name.into());
        if let Some(summary) = catalog.and_then(|catalog| catalog.find(self.id)) {
            session.insert("cwd".to_owned(), summary.cwd.clone().into());
            if let Some(title) = &summary.title {
                session.insert("title".to_owned(), title.clone().into());
            }
            entry(&summary, &mut session);
            if let Some(messages) = messages(&summary) {
                session.insert("total".to_owned(), messages.into());
            }
        }
        if let Some(branch) = catalog.and_then(|catalog| catalog.tool_branch(self.id)) {
            session.insert(TOOL_BRANCH.to_owned(), json!(branch));
        }
        session
    }

    fn turns(&self, query: &TurnsQuery) -> Result<String, Refusal> {
        let begin = match query.begin {
            Begin::Place(place) => (place, 0),
            Begin::Number(number) => (TurnPosition::START, number),
            Begin::End(back) => {
                let turns = count(&mut self.log()?, self.cancelled).map_err(stopped)?;
                (TurnPosition::START, turns.saturating_sub(back))
            }
        };
        let limit = query.limit.unwrap_or(usize::MAX);
        let longest = self.deps.client.line_limit;
        let before = before_text(self.session(), "turns");
        let mut log = self.log()?;
        let page = page(&mut log, begin, limit, longest, before, self.cancelled);
        let page = page.map_err(stopped)?;
        let mut rest = Map::new();
        if matches!(query.begin, Begin::End(_)) {
            rest.insert("offset".to_owned(), page.first.into());
        }
        if let Some(next) = page.next {
            rest.insert("nextCursor".to_owned(), next.cursor(self.id).into());
        }
        if !page.damage.is_empty() {
            let meta = json!({ "rejoin": { "damage": damage(&page.damage) } });
            rest.insert("_meta".to_owned(), meta);
        }
        // A page may be long, so what follows it is added and nothing is copied.
        let mut text = page.text;
        let rest = (!rest.is_empty()).then(|| Value::Object(rest).to_string());
        match &rest {
            Some(rest) => text.extend([",", &rest[1..]]),
            None => text.push('}'),
        }
        Ok(text)
    }
}

pub(super) fn stopped(stopped: TurnsError) -> Refusal {
    match stopped {
        TurnsError::Cancelled => Refusal::Cancelled,
        TurnsError::Store(error) => error.into(),
    }
}

/// An object with a further member that is JSON text.
pub(super) fn with_text(object: Map<String, Value>, name: &str, value: &str) -> String {
    before_text(object, name) + value + "}"
}

/// The text of an object up to the value of a further member.
fn before_text(object: Map<String, Value>, name: &str) -> String {
    let mut text = Value::Object(object).to_string();
    text.pop();
    let comma = if text.len() > 1 { "," } else { "" };
    text + comma + "\"" + name + "\":"
}
