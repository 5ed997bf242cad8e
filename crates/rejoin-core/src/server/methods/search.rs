//! `_rejoin/search`: the places in conversations where something was said, ranked.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::conversation::Field;
use crate::index::{Archived, Catalog, Filter, Hit, HitsError, ListError, Pattern, Query, Search};
use crate::protocol::meta::SEARCH_MODES;
use crate::server::error::{self, Error};
use crate::session::{Deps, Refusal};
use crate::sys::Timestamp;
use crate::transport::{IncomingRequest, Load};

use super::action::RequestAction;
use super::context::{ConnectionContext, client_id};
use super::list::{list_error, look_at_tools};
use super::params::{Integer, decode};
use super::workspace::absolute;

/// The longest text to search for, in bytes.
const LONGEST_QUERY: usize = 1000;

/// How long a look at the files of other tools is good for: searches follow each other as a user
/// types.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The most hits on one page, and of one session.
const MOST_HITS: i64 = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    query: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    agents: Option<Vec<String>>,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    roles: Option<Vec<String>>,
    #[serde(default)]
    kinds: Option<Vec<String>>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    limit: Option<Integer>,
    #[serde(default)]
    per_session: Option<Integer>,
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let mut params = decode::<Params>(&request.params)?;
    let cursor = params.cursor.take();
    let query = query(context, params)?;
    let (registry, tools) = (context.registry().clone(), context.tools());
    let cancellation = request.responder.cancellation();
    Ok(RequestAction::Later(Box::pin(async move {
        // The search covers what earlier requests did.
        registry.barrier().await;
        let deps = registry.deps().clone();
        let all_known = look_at_tools(tools, LOOK_AGAIN).await;
        let cancelled = || Err(error::refused("", Refusal::Cancelled));
        let room = tokio::select! {
            room = deps.client.flow.read(Load::Light) => room,
            () = cancellation.cancelled() => return (cancelled(), None),
        };
        let room = match room {
            Ok(room) => room,
            Err(full) => return (Err(error::overloaded(full)), None),
        };
        let found = tokio::task::spawn_blocking(move || {
            let is_cancelled = || cancellation.is_cancelled() || deps.client.writer.is_gone();
            let mut page = page(&deps, query, cursor.as_deref(), &is_cancelled)?;
            if !all_known {
                page["complete"] = false.into();
            }
            Ok(page)
        });
        let found = found.await;
        let result = match found {
            Ok(Ok(page)) => Ok(page.to_string()),
            Ok(Err(HitsError::Cancelled)) => cancelled(),
            Ok(Err(HitsError::List(ListError::Cursor))) => Err(error::invalid_params(
                "`cursor` is not one that this search has given out",
            )),
            Ok(Err(HitsError::List(error))) => Err(list_error(error)),
            Err(_) => Err(error::internal("the search failed")),
        };
        (result, Some(room))
    })))
}

/// The query that the parameters describe. An error names the member that is wrong.
fn query(context: &ConnectionContext, params: Params) -> Result<Query, Error> {
    let wrong = |problem: &str| Err(error::invalid_params(problem));
    let text = params.query;
    if text.len() > LONGEST_QUERY {
        return wrong(&format!("`query` is longer than {LONGEST_QUERY} bytes"));
    }
    let pattern = match params.mode.as_deref() {
        None | Some("words") => Search::parse(&text).map(Pattern::Words),
        Some("substring" | "regex") if text.is_empty() => None,
        Some("substring") => Some(Pattern::Substring(text)),
        Some("regex") => match Pattern::regex(&text) {
            Ok(pattern) => Some(pattern),
            Err(_) => return wrong("`query` is not a valid regular expression"),
        },
        Some(_) => {
            return wrong(&format!(
                "`mode` must be one of {}",
                SEARCH_MODES.join(", ")
            ));
        }
    };
    let Some(pattern) = pattern else {
        return wrong("`query` is blank");
    };
    let mut query = Query::new(pattern);
    let cwd = params.cwd.map(|cwd| absolute("cwd", &cwd)).transpose()?;
    query.sessions = Filter {
        cwd,
        archived: Archived::Include,
        ..Filter::default()
    };
    query.session = match params.session_id {
        Some(name) => Some(context.find(&name)?),
        None => None,
    };
    query.sources = params.agents.unwrap_or_default();
    query.since = time("since", params.since)?;
    query.until = time("until", params.until)?;
    query.fields = fields(params.roles, params.kinds)?;
    query.tool = params.tool.filter(|tool| !tool.trim().is_empty());
    let bounded = |number: Option<Integer>, default: usize| {
        let number = number.map(|Integer(number)| number.clamp(1, MOST_HITS));
        number
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(default)
    };
    query.limit = bounded(params.limit, query.limit);
    query.per_session = bounded(params.per_session, query.per_session);
    Ok(query)
}

/// A time in the form of the log's times.
fn time(member: &str, text: Option<String>) -> Result<Option<String>, Error> {
    let Some(text) = text else { return Ok(None) };
    match Timestamp::parse(&text) {
        Some(time) => Ok(Some(time.to_string())),
        None => Err(error::invalid_params(format!(
            "`{member}` must be a time such as 2026-11-21T08:30:00Z"
        ))),
    }
}

/// The fields that have one of these roles and are of one of these kinds.
fn fields(roles: Option<Vec<String>>, kinds: Option<Vec<String>>) -> Result<Vec<Field>, Error> {
    let known = |member: &str, names: &[String], all: &[&str]| {
        if names.iter().all(|name| all.contains(&&**name)) {
            return Ok(());
        }
        let problem = format!("`{member}` may contain {}", all.join(", "));
        Err(error::invalid_params(problem))
    };
    let (roles, kinds) = (roles.unwrap_or_default(), kinds.unwrap_or_default());
    known("roles", &roles, &Field::ROLES)?;
    known("kinds", &kinds, &Field::ALL.map(Field::name))?;
    if roles.is_empty() && kinds.is_empty() {
        return Ok(Vec::new());
    }
    let is_wanted = |field: &Field| {
        (roles.is_empty() || roles.iter().any(|role| role == field.role()))
            && (kinds.is_empty() || kinds.iter().any(|kind| kind == field.name()))
    };
    let fields: Vec<_> = Field::ALL.into_iter().filter(is_wanted).collect();
    if fields.is_empty() {
        return Err(error::invalid_params(
            "no text has both `roles` and `kinds`",
        ));
    }
    Ok(fields)
}

fn page(
    deps: &Arc<Deps>,
    mut query: Query,
    cursor: Option<&str>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Value, HitsError> {
    let Some(catalog) = &deps.library.catalog else {
        return Ok(json!({ "hits": [], "complete": true }));
    };
    query.sessions.since = deps.library.expired_before();
    let page = catalog.hits(&query, cursor, cancelled)?;
    if !page.complete {
        Catalog::read_words_in_background(catalog);
    }
    let names = deps.engine.agent_names();
    let hits: Value = page
        .hits
        .into_iter()
        .map(|hit| entry(hit, &names))
        .collect();
    let mut result = json!({ "hits": hits, "complete": page.complete });
    if page.of_question {
        result["commonWordsLeftOut"] = true.into();
    }
    if let Some(cursor) = page.next_cursor {
        result["nextCursor"] = cursor.into();
    }
    Ok(result)
}

/// A hit, as a client sees it.
fn entry(hit: Hit, agent: &[String]) -> Value {
    let summary = &hit.session.summary;
    let mut entry = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        entry.extend(value.map(|value| (name.to_owned(), value)));
    };
    let name = client_id(&hit.session.id, summary, agent);
    add("sessionId", Some(name.into()));
    add("cwd", Some(summary.cwd.clone().into()));
    add("title", summary.title.clone().map(Value::from));
    add("source", Some(summary.source.clone().into()));
    add("createdAt", Some(summary.created_at.clone().into()));
    add("updatedAt", summary.updated_at.clone().map(Value::from));
    add("kind", Some(hit.field.name().into()));
    add("role", Some(hit.field.role().into()));
    add("timestamp", Some(hit.at.into()));
    add("offset", hit.offset.map(Value::from));
    add("messageId", hit.message_id.map(Value::from));
    add(
        "toolCallId",
        hit.tool_call
            .as_ref()
            .and_then(|call| Some(call.id.clone()?.into())),
    );
    add(
        "toolTitle",
        hit.tool_call
            .as_ref()
            .and_then(|call| Some(call.title.clone()?.into())),
    );
    add(
        "toolKind",
        hit.tool_call.and_then(|call| Some(call.kind?.into())),
    );
    add("snippet", Some(hit.snippet.into()));
    Value::Object(entry)
}
